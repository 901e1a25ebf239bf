import { JsonScanner } from "./openai_chat/json_scanner.ts";

/** What the dialects call it. */
const NAMES: ReadonlySet<string> = new Set([
  "max_completion_tokens",
  "max_tokens",
  "max_output_tokens",
]);

/** The most tokens that a request of any dialect lets its answer have; null when it does not say. */
export function readMaxOutputTokens(body: Uint8Array): number | null {
  let most: number | null = null;
  const scanner = new JsonScanner(body);
  scanner.skipSpace();
  if (!scanner.take(0x7b)) return null;
  scanner.members((key) => {
    const from = scanner.position;
    scanner.value(2);
    if (!NAMES.has(key)) return;
    const value = scanner.parse({ from, to: scanner.position });
    if (typeof value === "number" && value >= 0) most = Math.max(most ?? 0, Math.ceil(value));
  });
  return most;
}
