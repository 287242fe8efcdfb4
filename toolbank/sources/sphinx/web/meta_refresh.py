"""Pages that hold nothing but a meta refresh, as sites leave where a page has moved."""

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from w3lib.html import get_meta_refresh

from toolbank.sources.sphinx.web.cache_middleware import is_html
from toolbank.sources.sphinx.web.crawl_settings import OwnSiteOnly
from toolbank.sources.sphinx.web.decode import decode_html
from toolbank.sources.sphinx.web.refusals import Refused

_HEAD_BYTES = 4096


class FollowMetaRefresh:
    """Follows a stub once, within the site."""

    def __init__(self, own_site: OwnSiteOnly) -> None:
        self._own_site = own_site

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> "FollowMetaRefresh":
        """Scrapy's constructor."""
        return cls(OwnSiteOnly.from_crawler(crawler))

    def process_response(
        self, request: Request, response: Response
    ) -> Request | Response:
        """Ask for the page that a stub leads to.

        Raises:
            Refused: it leads to another site, or to a stub again.
        """
        target = stub_target(response) if request.meta.get("keep_if_html") else ""
        if not target:
            return response
        if not self._own_site.is_own(target):
            raise Refused(f"a stub that leads to another site, {target}")
        if request.meta.get("is_of_stub"):
            raise Refused(f"a stub that leads to a stub, {response.url}")
        return request.replace(url=target, meta={**request.meta, "is_of_stub": True})


def stub_target(response: Response) -> str:
    """The address that a stub leads to, or "" where a page is none."""
    head = response.body[:_HEAD_BYTES]
    if (
        response.status != 200
        or b"http-equiv" not in head.lower()
        or b"<dt" in response.body
        or not is_html(response)
    ):
        return ""
    sent_as = response.headers.get("Content-Type") or b""
    try:
        html = decode_html(head, sent_as.decode("latin-1"))
        return get_meta_refresh(html, response.url)[1] or ""
    except ValueError:
        return ""
