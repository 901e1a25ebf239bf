const STANDARD = /^[A-Za-z0-9+/]*$/;

/**
 * A text of base64 as it is written canonically: padded, in the standard alphabet, without line breaks. Null for what is
 * none. Some write it without padding, in lines of 76 characters, or in the alphabet of URLs.
 */
export function canonicalBase64(text: string): string | null {
  const plain = /[\s_-]/.test(text)
    ? text.replaceAll(/\s+/g, "").replaceAll("-", "+").replaceAll("_", "/")
    : text;
  const end = plain.endsWith("==") ? -2 : plain.endsWith("=") ? -1 : plain.length;
  const digits = plain.slice(0, end);
  if (!STANDARD.test(digits) || digits.length % 4 === 1) return null;
  return digits.length % 4 === 0 ? digits : digits.padEnd(Math.ceil(digits.length / 4) * 4, "=");
}
