"""Operations of an HTTP API that OpenAPI or Swagger describes, as tools."""
