/** What kind of thing a name stands for. */
export type EntryType = "file" | "folder" | "link" | "other";

/** A name in a folder. */
export interface Entry {
  type: EntryType;
  size: number;
  /** Time of the last change, in seconds since the epoch. */
  changed: number;
  /** Relative to the folder that was walked. */
  path: string;
}

/** What is known of a name without opening what it stands for. */
export interface Stat extends Omit<Entry, "path"> {
  /** Permissions in octal digits. */
  mode: string;
  /** Number of names that the file has. */
  links: number;
  /** Where a link leads, as it was written. */
  target?: string;
}

/** Reads what WALK wrote, sorted by path. */
export function readEntries(text: string, mark: string): Entry[] {
  const entries: Entry[] = [];
  for (const record of text.split(`/${mark}\n`)) {
    const [type, size, changed, ...path] = record.split("/");
    // The last one may be cut.
    if (type === undefined || path.length === 0 || record === text) continue;
    const name = path.join("/").replace(/^\.\//, "");
    entries.push({
      type: toType(type),
      size: Number(size),
      changed: Math.floor(Number(changed)),
      path: name,
    });
  }
  if (!text.endsWith(`/${mark}\n`)) entries.pop();
  return entries.sort((a, b) => a.path < b.path ? -1 : 1);
}

/** Reads what STAT wrote. */
export function readStat(text: string): Stat {
  const [line = "", ...rest] = text.split("\n");
  const [type = "", size, changed, mode = "", links] = line.split("/");
  const target = rest.join("\n").replace(/\n$/, "");
  return {
    type: toType(type),
    size: Number(size),
    changed: Number(changed),
    mode,
    links: Number(links),
    ...(target === "" ? {} : { target }),
  };
}

/** `find` says a letter, `stat` a word. */
function toType(word: string): EntryType {
  if (/^(?:f$|regular)/i.test(word)) return "file";
  if (/^d/i.test(word)) return "folder";
  return /^(?:l$|symbolic)/i.test(word) ? "link" : "other";
}
