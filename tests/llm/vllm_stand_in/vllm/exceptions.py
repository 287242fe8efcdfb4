class VLLMClientError(Exception):
    pass


class VLLMValidationError(VLLMClientError):
    pass


class EngineDeadError(Exception):
    pass
