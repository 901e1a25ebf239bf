/** What a model's name says of what it takes. */
export interface ModelTraits {
  /** How thinking is asked for: as much as it takes, or a budget of tokens. */
  thinking: "adaptive" | "budget";
  /** Thinks without being asked. */
  thinksUnasked: boolean;
  /** What switches thinking off; null where nothing does. */
  off: "disabled" | "between_tools" | null;
  /** The levels of effort, lowest first; empty where there is no such setting. */
  efforts: readonly string[];
  /** Refuses thinking that comes back behind a changed beginning, unless it is told to drop it. */
  bindsThinking: boolean;
  /** Which of temperature and top_p may be set. */
  sampling: "both" | "one" | "none";
  /** Whether answers and calls can be held to a schema. */
  structured: boolean;
  /** Whether system messages may stand between turns. */
  systemTurns: boolean;
  /** Bound of output for requests that set none; thinking counts. */
  defaultMaxTokens: number;
}

const LEVELS = ["low", "medium", "high", "max"] as const;

/** Models of other vendors behind a server that speaks this dialect. */
const OTHER: ModelTraits = {
  thinking: "budget",
  thinksUnasked: false,
  off: "disabled",
  efforts: [],
  bindsThinking: false,
  sampling: "both",
  structured: true,
  systemTurns: false,
  defaultMaxTokens: 8192,
};

/** Reads a model's name, whatever stands before or behind it. A Claude without a version is taken for the newest. */
export function traitsOf(model: string): ModelTraits {
  const name = model.toLowerCase();
  if (!name.includes("claude")) return OTHER;
  const family = /opus|sonnet|haiku|fable|mythos/.exec(name)?.[0] ?? "";
  const [, major, minor = "0"] =
    /(?:claude|opus|sonnet|haiku|fable|mythos)-(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?/.exec(
      name,
    ) ??
      [];
  const version = major === undefined ? Infinity : Number(major) * 100 + Number(minor);
  const isAbove = family === "fable" || family === "mythos";
  const isAdaptive = isAbove || version >= 406;
  return {
    thinking: isAdaptive ? "adaptive" : "budget",
    thinksUnasked: isAbove || version >= 505 || (family === "opus" && version >= 500),
    off: switchOf({ family, version, isAbove }),
    efforts: effortsOf({ family, version, isAbove }),
    bindsThinking: version >= (isAbove ? 501 : 505),
    sampling: isAbove || version >= 407 ? "none" : version >= 401 ? "one" : "both",
    structured: isAdaptive || version >= 405 || (family === "opus" && version >= 401),
    systemTurns: version >= (isAbove ? 500 : family === "opus" ? 408 : 505),
    defaultMaxTokens: isAdaptive || version >= 307 ? 32_000 : 4096,
  };
}

interface Name {
  family: string;
  /** 405 is 4.5. */
  version: number;
  isAbove: boolean;
}

function switchOf({ family, version, isAbove }: Name): ModelTraits["off"] {
  if (isAbove) return null;
  if (version < 505 || family === "haiku") return "disabled";
  return family === "sonnet" ? "between_tools" : null;
}

function effortsOf({ family, version, isAbove }: Name): readonly string[] {
  if (isAbove || version >= 407) return ["low", "medium", "high", "xhigh", "max"];
  if (version >= 406) return LEVELS;
  return family === "opus" && version >= 405 ? LEVELS.slice(0, 3) : [];
}
