/** Takes secrets out of a text. */
export type Redact = (text: string) => string;

/** Longest text of a provider that a client gets to see, in characters. */
const MAX_SHOWN = 500;
/** Read past a cut, so that a secret that lies across it is seen whole. */
const CUT_MARGIN = 1024;

/** A provider's own words, bounded and without secrets: it may well repeat the credential that the hub sent it. */
export function showProviderText(
  text: string,
  { redact, maxLength = MAX_SHOWN }: { redact: Redact; maxLength?: number },
): string {
  const isWhole = text.length <= maxLength + CUT_MARGIN;
  const read = redact(isWhole ? text : text.slice(0, maxLength + CUT_MARGIN));
  // The last stretch of what was read may hold the first half of a secret.
  const length = isWhole ? maxLength : Math.min(maxLength, Math.max(0, read.length - CUT_MARGIN));
  return read.slice(0, length).toWellFormed();
}
