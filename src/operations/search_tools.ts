import { isJsonObject } from "../core/json.ts";
import type { Tool } from "../core/tool.ts";

/** Gives the tools that fit a text, best first, at most `most` of them; none that has nothing of it. */
export type SearchTools = (text: string, most: number) => Tool[];

/** How much of a text is looked at. */
const MAX_TEXT_CHARS = 4000;
const MAX_TOOL_CHARS = 4000;
const MAX_TERMS = 64;
/** How much a word counts where it stands. */
const WEIGHTS = { name: 4, title: 3, description: 1, parameter: 0.5 };
/** Okapi BM25: how soon repetition stops to count, and how much long texts lose. */
const K1 = 1.2;
const B = 0.5;
/** What a word counts that only begins like the one looked for: other endings of it, in whichever language. */
const SIMILAR = 0.5;
const MIN_STEM_CHARS = 4;
const MAX_ENDING_CHARS = 3;

/** Scripts that write words without spaces between them. */
const UNSPACED =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]+/gu;
const WORD = /[\p{L}\p{M}]+|\p{N}+/gu;
const CASE_CHANGE = /(\p{Ll})(\p{Lu})|(\p{Lu})(\p{Lu}\p{Ll})/gu;

interface Entry {
  tool: Tool;
  /** Weight of each of its words. */
  terms: ReadonlyMap<string, number>;
  length: number;
}

/**
 * Prepares a search over names, titles, descriptions and names of parameters, by the words they have in common with a
 * text, rare ones counting more. What is found, and in which order, depends on tools and text alone.
 */
export function createToolSearch(tools: readonly Tool[]): SearchTools {
  const entries = tools.map(toEntry);
  const owners = new Map<string, Entry[]>();
  for (const entry of entries) {
    for (const term of entry.terms.keys()) {
      const known = owners.get(term);
      if (known === undefined) owners.set(term, [entry]);
      else known.push(entry);
    }
  }
  const average = entries.reduce((sum, { length }) => sum + length, 0) / entries.length;
  const scoreTerm = (term: string, scores: Map<Entry, number>) => {
    const best = new Map<Entry, number>();
    for (const [known, having] of owners) {
      const likeness = known === term ? 1 : isAkin(known, term) ? SIMILAR : 0;
      if (likeness === 0) continue;
      const rarity = Math.log(1 + (entries.length - having.length + 0.5) / (having.length + 0.5));
      for (const entry of having) {
        const often = entry.terms.get(known) ?? 0;
        const brake = K1 * (1 - B + B * entry.length / average);
        const score = likeness * rarity * often * (K1 + 1) / (often + brake);
        best.set(entry, Math.max(best.get(entry) ?? 0, score));
      }
    }
    for (const [entry, score] of best) scores.set(entry, (scores.get(entry) ?? 0) + score);
  };
  return (text, most) => {
    const scores = new Map<Entry, number>();
    const terms = [...new Set(wordsOf(text.slice(0, MAX_TEXT_CHARS)))].slice(0, MAX_TERMS);
    for (const term of terms) scoreTerm(term, scores);
    return [...scores]
      .sort(([a, scoreA], [b, scoreB]) => scoreB - scoreA || (a.tool.name < b.tool.name ? -1 : 1))
      .slice(0, most)
      .map(([{ tool }]) => tool);
  };
}

/** The words of a text in any language, lower case: `createIssue` has two, and so have `create_issue` and 查找. */
export function wordsOf(text: string): string[] {
  const plain = text.normalize("NFKC").replace(CASE_CHANGE, "$1$3 $2$4").toLowerCase();
  const words: string[] = [];
  const spaced = plain.replace(UNSPACED, (run) => {
    const signs = [...run];
    if (signs.length === 1) words.push(run);
    for (let at = 1; at < signs.length; at++) words.push(`${signs[at - 1]}${signs[at]}`);
    return " ";
  });
  words.push(...spaced.match(WORD) ?? []);
  return words;
}

function toEntry(tool: Tool): Entry {
  const terms = new Map<string, number>();
  const read = (text: string, weight: number) => {
    for (const word of wordsOf(text.slice(0, MAX_TOOL_CHARS))) {
      terms.set(word, (terms.get(word) ?? 0) + weight);
    }
  };
  read(tool.name, WEIGHTS.name);
  read(tool.title ?? "", WEIGHTS.title);
  read(tool.description, WEIGHTS.description);
  const properties = tool.inputSchema["properties"];
  if (isJsonObject(properties)) read(Object.keys(properties).join(" "), WEIGHTS.parameter);
  return { tool, terms, length: terms.values().reduce((sum, weight) => sum + weight, 0) };
}

/** Whether two words differ in their endings only. */
function isAkin(a: string, b: string): boolean {
  const least = Math.min(a.length, b.length);
  if (least < MIN_STEM_CHARS || Math.max(a.length, b.length) - least > MAX_ENDING_CHARS) {
    return false;
  }
  let same = 0;
  while (same < least && a[same] === b[same]) same++;
  return same >= MIN_STEM_CHARS && least - same <= 1;
}
