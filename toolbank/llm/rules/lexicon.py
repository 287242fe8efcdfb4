"""Everyday English that requests are made of: verbs, openings, places, persons."""

VERBS = frozenset(
    ["accept", "access", "accumulate", "activate", "add", "adjust", "aggregate", "align", "allocate", "allow", "analyze", "append", "apply", "approximate", "arrange", "assemble", "assert", "assign", "associate", "attach", "authorize", "backup", "bin", "bind", "blend", "block", "box", "break", "broadcast", "build", "bundle", "calculate", "call", "cancel", "cast", "center", "change", "check", "choose", "classify", "clean", "clear", "clip", "clone", "close", "coerce", "collapse", "collect", "combine", "compare", "compile", "complete", "compress", "compute", "concatenate", "conditionally", "configure", "confirm", "conjugate", "connect", "construct", "contain", "convert", "convolve", "copy", "correct", "count", "create", "crop", "cut", "cycle", "deal", "decode", "decompose", "decrease", "decrypt", "define", "delete", "deny", "deploy", "deprecate", "deregister", "describe", "detach", "detect", "determine", "diff", "disable", "disassociate", "display", "divide", "download", "draw", "drop", "duplicate", "emit", "enable", "encode", "encrypt", "ensure", "enter", "enumerate", "estimate", "evaluate", "examine", "exchange", "execute", "expand", "explode", "export", "fail", "expose", "extend", "extract", "factor", "fill", "filter", "find", "fit", "fix", "flatten", "flip", "format", "forecast", "gather", "generate", "get", "give", "group", "guess", "handle", "hide", "highlight", "hold", "identify", "ignore", "import", "indicate", "infer", "initiate", "insert", "inspect", "integrate", "interchange", "interpolate", "interpret", "invert", "invoke", "issue", "iterate", "join", "keep", "label", "launch", "leave", "left-justify", "limit", "list", "load", "localize", "lock", "look", "lower", "make", "manage", "map", "mark", "match", "measure", "melt", "memoize", "merge", "modify", "monitor", "move", "multiply", "name", "negate", "normalize", "notify", "obtain", "open", "order", "overwrite", "pack", "pad", "parse", "partition", "paste", "perform", "permute", "pick", "pivot", "place", "plot", "point", "pop", "prepare", "preserve", "print", "process", "produce", "project", "promote", "provide", "publish", "purge", "push", "put", "query", "raise", "randomly", "rank", "read", "rearrange", "rebuild", "receive", "record", "recover", "redirect", "reduce", "refer", "refresh", "register", "reject", "release", "reload", "remove", "rename", "render", "repeat", "replace", "replicate", "report", "represent", "request", "require", "resample", "reset", "reshape", "resize", "resolve", "restart", "restore", "restrict", "retain", "retrieve", "return", "reverse", "revert", "revoke", "roll", "rotate", "round", "run", "sample", "save", "scale", "scan", "schedule", "search", "select", "send", "separate", "serialize", "set", "shift", "show", "shrink", "shuffle", "shut", "simulate", "skip", "slice", "smooth", "solve", "sort", "specify", "split", "squeeze", "stack", "standardize", "start", "stop", "store", "stream", "strip", "submit", "subscribe", "subset", "subtract", "suggest", "sum", "summarize", "suppress", "suspend", "swap", "switch", "synchronize", "tag", "take", "terminate", "test", "tile", "track", "train", "transfer", "transform", "translate", "transpose", "treat", "trigger", "trim", "truncate", "try", "turn", "unpack", "unpivot", "unregister", "unstack", "unsubscribe", "untag", "unwrap", "update", "upgrade", "upload", "use", "validate", "verify", "view", "visualize", "wait", "walk", "warn", "wrap", "write", "zip"]
)
GIVING = frozenset(
    ["return", "compute", "calculate", "get", "give", "evaluate", "obtain", "find", "retrieve", "provide", "produce", "determine", "generate", "construct", "create", "draw"]
)
"""Verbs whose object is what the person wants."""

QUESTION_WORDS = frozenset(["how", "what", "which", "where", "when", "who", "whose", "whether", "why"])
FINITE = frozenset(
    ["is", "are", "was", "were", "has", "have", "had", "can", "could", "will", "would", "should", "must", "may", "might", "does", "do", "did"]
)
DETERMINERS = frozenset(
    ["the", "a", "an", "this", "that", "these", "those", "each", "every", "all", "any", "both", "some", "one", "two", "three", "its"]
)

ADVERBS = frozenset(["randomly", "conditionally", "simply", "also", "quickly", "generally"])

THINGS = tuple(
    """readings; measurements; test results; sales figures; scores; prices; survey answers;
    sensor values; experiment results; monthly figures; attendance counts; weights; temperatures;
    delivery times; ticket sales; water levels; daily counts; costs; heart rates; traffic counts;
    plant heights; energy use figures; reaction times; website visits; stock levels""".replace(
        "\n", " "
    ).split(";")
)
PLACES = tuple(
    """from the clinic; from our school; for the bakery; from the weather station; of our football club;
    from the lab; for my thesis; of the whole village; from last summer; of this year; from the garden;
    from the factory; of the online shop; from the library; from the museum; for the annual report;
    from two branches; from the farm; of my students; from the harbour; for a customer; from the observatory;
    of the apartment block; from the workshop; for the newsletter; from the charity run; from my phone;
    from the vineyard; for the council; of the orchestra; from the night shift; from the kitchen;
    of the bike shop; for a class project; from the hospital ward; from the power plant; of the swim team;
    from the field trip; for my tax return; from the train operator; of the choir; from the warehouse;
    from the past ten years; for tomorrow's meeting; from the drone; of the theatre; from the pilot study""".replace(
        "\n", " "
    ).split(";")
)
