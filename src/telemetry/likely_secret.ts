/** Names of variables, headers, parameters and flags whose values are credentials. */
const SECRET_NAME =
  /authorization|cookie|key|password|passwd|pwd|secret|token|credential|auth\b|dsn\b|database[_-]?url/i;
/** Names of values that say where a credential is. */
const PLACE_NAME = /(?:path|file|dir|folder|home)$/i;
const PATH = /^(?:~|\.{1,2})?\/|^[A-Za-z]:[\\/]/;
const EMAIL = /^[^\s@:/]+@[^\s@:/]+\.[^\s@:/]+$/;
/** Shorter values stand in innocent texts by chance. */
const SHORTEST = 8;
/** A value with a name that says nothing is a credential from this length on, when it looks random. */
const SHORTEST_UNNAMED = 16;

/**
 * The parts of a configured value that no text of a server may show: all of it when its name or its form says that it is
 * a credential, and passwords of URLs. Folders, addresses without a password and short words are none: a server's results
 * are made of them.
 */
export function likelySecrets(value: string, names: readonly string[]): string[] {
  const header = /^([\w-]{1,100}):\s*(\S.*)$/s.exec(value);
  if (header !== null && SECRET_NAME.test(header[1] ?? "")) return credentialOf(header[2] ?? "");
  if (value.includes("://") && URL.canParse(value)) return secretsOfUrl(value);
  if (value.length < SHORTEST || EMAIL.test(value)) return [];
  const isNamed = names.some((name) => SECRET_NAME.test(name));
  const isPath = PATH.test(value) && !/[+=]/.test(value);
  if (isPath && (!isNamed || value.split("/").length > 2)) return [];
  if (isNamed) return names.some((name) => PLACE_NAME.test(name)) ? [] : credentialOf(value);
  const looksRandom = value.length >= SHORTEST_UNNAMED && /\d/.test(value) &&
    /[a-z]/i.test(value) && !/\s/.test(value);
  return looksRandom ? [value] : [];
}

/** Whether a name says that its value is a credential. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** A value and what follows its scheme, as in `Bearer …`. */
export function credentialOf(value: string): string[] {
  const word = value.slice(value.lastIndexOf(" ") + 1);
  return [value, word].filter((text) => text.length >= SHORTEST);
}

function secretsOfUrl(value: string): string[] {
  const { password, username, searchParams } = new URL(value);
  const found = [...searchParams].filter(([name, text]) =>
    likelySecrets(text, [name]).length > 0 || SECRET_NAME.test(name)
  ).map(([, text]) => text);
  if (password !== "") found.push(password, decode(password));
  // Some servers take a token as the name: `https://TOKEN@host`.
  else found.push(...likelySecrets(decode(username), []));
  return found.filter((text) => text.length >= SHORTEST);
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A flag of a command line, and its value where it stands in the same argument. */
const FLAG = /^--?([\w.-]+)(?:=(.*))?$/s;

/** The name by which an argument says what it is: that of its flag, or of the flag before it. */
export function argumentNames(
  arg: string,
  before: string | undefined,
): { name: string; value: string } {
  const own = FLAG.exec(arg);
  if (own !== null) return { name: own[1] ?? "", value: own[2] ?? "" };
  const flag = before === undefined ? null : FLAG.exec(before);
  const assigned = /^(\w{1,100})=(.*)$/s.exec(arg);
  if (assigned !== null) return { name: assigned[1] ?? "", value: assigned[2] ?? "" };
  return { name: flag !== null && flag[2] === undefined ? flag[1] ?? "" : "", value: arg };
}
