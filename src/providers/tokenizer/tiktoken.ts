/** Counts the tokens of a text in one go. */
export type CountTokens = (text: string) => number;

/** OpenAI's encodings; of each model since GPT-4o it is `o200k_base`. */
export const ENCODINGS = ["o200k_base", "cl100k_base", "p50k_base", "r50k_base"] as const;
export type Encoding = typeof ENCODINGS[number];

const OF_MODELS: readonly [prefix: RegExp, encoding: Encoding][] = [
  [/^(gpt-4($|-)|gpt-3\.5|gpt-35|text-embedding)/, "cl100k_base"],
  [/^(text-davinci-00[23]|code-)/, "p50k_base"],
  [/^(davinci|curie|babbage|ada)/, "r50k_base"],
];

/** The encoding of a name behind `tiktoken:`: its own, or that of an OpenAI model. */
export function encodingOf(name: string): Encoding {
  const own = ENCODINGS.find((encoding) => encoding === name);
  return own ?? OF_MODELS.find(([prefix]) => prefix.test(name))?.[1] ?? "o200k_base";
}

/** Loads the ranks of an encoding: a few megabytes of code, and for each 25 to 35 MB of memory. Nothing is fetched. */
export async function loadEncoding(encoding: Encoding): Promise<CountTokens> {
  const { countTokens } = await importEncoding(encoding);
  // What looks like a special token is plain text to who only reads it.
  const options = { disallowedSpecial: new Set<string>() };
  return (text) => countTokens(text, options);
}

function importEncoding(encoding: Encoding) {
  switch (encoding) {
    case "o200k_base":
      return import("gpt-tokenizer/encoding/o200k_base");
    case "cl100k_base":
      return import("gpt-tokenizer/encoding/cl100k_base");
    case "p50k_base":
      return import("gpt-tokenizer/encoding/p50k_base");
    case "r50k_base":
      return import("gpt-tokenizer/encoding/r50k_base");
  }
}
