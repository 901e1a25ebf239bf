/** Characters that are counted at a time; a few milliseconds of work. */
const PIECE = 4096;
/** Longer runs of one kind of character are cut: merging the pairs of a run takes the square of its length. */
const LONGEST_RUN = 160;
/** A text that is longer is not worth counting: its estimate decides. */
export const MOST_COUNTED_CHARACTERS = 256 * 1024;
/** Others get their turn this often. */
const PIECES_AT_A_TIME = 4;

/**
 * Counts a text in pieces, with `turn` between them, so that nothing waits long for it: pieces end where words do, and
 * a run without an end is cut. A cut adds a token at most.
 */
export async function countInPieces(
  text: string,
  { count, turn }: { count: (piece: string) => number; turn: () => Promise<void> },
): Promise<number> {
  let tokens = 0;
  let pieces = 0;
  for (const piece of piecesOf(text)) {
    tokens += count(piece);
    if (++pieces % PIECES_AT_A_TIME === 0) await turn();
  }
  return tokens;
}

/** The pieces of a text, in order. */
export function* piecesOf(text: string): Generator<string, void, void> {
  let from = 0;
  let runFrom = 0;
  let kind = -1;
  let lastBreak = 0;
  for (let at = 0; at < text.length; at++) {
    const now = kindOf(text.charCodeAt(at));
    if (now !== kind) {
      // A word begins with the blank before it.
      if (kind !== BLANK) lastBreak = at;
      kind = now;
      runFrom = at;
    }
    const isLong = at - runFrom >= LONGEST_RUN;
    if (!isLong && at - from < PIECE) continue;
    const end = isLong || lastBreak <= from ? wholeCharacters(text, at) : lastBreak;
    yield text.slice(from, end);
    from = end;
    lastBreak = end;
    if (isLong) runFrom = end;
  }
  if (from < text.length) yield text.slice(from);
}

const BLANK = 0;
const WORD = 1;
const SIGN = 2;

function kindOf(code: number): number {
  if (code === 32 || (code >= 9 && code <= 13) || code === 0xa0 || code === 0x3000) return BLANK;
  const isSign = code < 128 && !(code >= 97 && code <= 122) && !(code >= 65 && code <= 90) &&
    !(code >= 48 && code <= 57);
  return isSign ? SIGN : WORD;
}

/** The place, or the one before it where it is inside of a surrogate pair. */
function wholeCharacters(text: string, at: number): number {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code <= 0xdfff ? at - 1 : at;
}
