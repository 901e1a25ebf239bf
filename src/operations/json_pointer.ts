/** One token of a JSON pointer, escaped (RFC 6901, section 3). */
export function escapeToken(token: string): string {
  return token.replaceAll("~", "~0").replaceAll("/", "~1");
}

/** The tokens of a pointer that a URI fragment carries (`#/a/b`), unescaped; null when it is malformed. */
export function fragmentTokens(fragment: string): string[] | null {
  try {
    const pointer = decodeURIComponent(fragment.slice(1));
    return pointer.slice(1).split("/").map((token) =>
      token.replaceAll("~1", "/").replaceAll("~0", "~")
    );
  } catch {
    return null;
  }
}
