/** What a model's name says of what it takes. Names that nobody knows yet are taken for the newest ones. */
export interface ModelTraits {
  /** Whether effort is a level; a budget of tokens before that. */
  thinkingLevels: boolean;
  /** Whether the level below `LOW` is known. */
  minimalLevel: boolean;
  /** Whether thinking can be switched off, by a budget of 0. */
  thinkingOff: boolean;
  /** Whether calls without a signature are refused, and results can hold images. */
  signedCalls: boolean;
}

/** Reads a model's name, `models/` before it or not. */
export function traitsOf(model: string): ModelTraits {
  const name = model.replace(/^models\//, "").toLowerCase();
  const isGemini = name.startsWith("gemini-") || name.startsWith("nano-banana");
  const isOlder = /^gemini-([12][.-]|pro$|pro-vision$)/.test(name);
  return {
    thinkingLevels: !isOlder,
    minimalLevel: /^gemini-3(\.[156])?-flash/.test(name),
    thinkingOff: isOlder && !name.includes("-pro"),
    signedCalls: isGemini && !isOlder,
  };
}
