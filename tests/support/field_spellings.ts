/** Names by which servers take a model, a size or a number of answers, and some that are harmless. */
export const SPELLINGS: readonly string[] = [
  "model",
  "models",
  "engine",
  "fallbacks",
  "route",
  "provider",
  "plugins",
  "preset",
  "extra_body",
  "n",
  "best_of",
  "num_return_sequences",
  "candidate_count",
  "max_tokens",
  "max_completion_tokens",
  "max_output_tokens",
  "max_new_tokens",
  "max_length",
  "n_predict",
  "num_predict",
  "min_tokens",
  "options",
  "generationConfig",
  "thinking_budget",
  "temperature",
  "seed",
];

/** The name as a JSON string, spelled in one of eight ways. */
export function respell(name: string, way: number): string {
  const first = name.charAt(0);
  const escaped = (text: string) => `\\u${text.charCodeAt(0).toString(16).padStart(4, "0")}`;
  switch (way) {
    case 1:
      return JSON.stringify(name.toUpperCase());
    case 2:
      return JSON.stringify(first.toUpperCase() + name.slice(1));
    case 3:
      return `"${escaped(first)}${name.slice(1)}"`;
    case 4:
      return `"${escaped(first.toUpperCase())}${name.slice(1)}"`;
    case 5:
      return JSON.stringify(name.replaceAll(/_([a-z])/g, (_, letter) => letter.toUpperCase()));
    case 6:
      // The Kelvin sign and the long s, which fold to k and s.
      return JSON.stringify(name.replaceAll("k", "\u212a").replaceAll("s", "\u017f"));
    case 7:
      return `"${name}\\u0000x"`;
    default:
      return JSON.stringify(name);
  }
}
