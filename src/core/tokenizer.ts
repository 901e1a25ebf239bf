/** Counts what a model reads. */
export interface Tokenizer {
  readonly name: string;
  /** Tokens of a text that hardly any model exceeds, at once; see `docs/agents.md` for how it was found. */
  estimate(text: string): number;
  /**
   * Tokens of a text: the model's own count where its tokens are public, else the estimate. Lets others run while a long
   * text is counted.
   */
  count(text: string): number | Promise<number>;
}

/** What a model can read at a time. */
export interface ModelWindow {
  provider: string;
  model: string;
  /** Tokens of a request and its answer together. */
  contextTokens: number;
  /** Tokens that are kept free for the answer. */
  outputTokens: number;
  /** Tokens that are kept free since counts are not exact, and for the request that ends a run. */
  bufferTokens: number;
  tokenizer: Tokenizer;
}
