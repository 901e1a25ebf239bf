import { isJsonObject } from "../core/json.ts";
import type { Usage } from "../core/usage.ts";
import { mayHaveError, scrubErrorFrame } from "./errors/scrub_frame.ts";
import { readUsage } from "./openai_chat/chat_usage.ts";
import type { Redact } from "./provider_text.ts";
import { readAnswerMembers } from "./read_members.ts";
import type { FrameReader, TapFacts } from "./sse_tap.ts";
import type { WireDialect } from "./wire_dialect.ts";
import { parseFrame } from "./parse_frame.ts";

const USAGE: ReadonlySet<string> = new Set(["usage"]);

/** Looks for usage in the events of a stream, and takes out of errors what is not the client's to read. */
class PassFrames implements FrameReader {
  readonly #redact: Redact;
  readonly #readsUsage: boolean;

  constructor({ redact, readsUsage }: { redact: Redact; readsUsage: boolean }) {
    this.#redact = redact;
    this.#readsUsage = readsUsage;
  }

  wants(text: string): boolean {
    return this.#readsUsage && text.includes('"usage"') || mayHaveError(text);
  }

  read(data: string, facts: TapFacts): boolean {
    facts.content = true;
    if (this.#readsUsage && data.includes('"usage"')) {
      facts.usage = usageOf(parse(data)) ?? facts.usage;
    }
    return false;
  }

  rewrite(frame: string, decode: () => string): string | null {
    return scrubErrorFrame(frame, decode, this.#redact);
  }
}

/** The rest of OpenAI's API, where an answer may tell what it cost. Whatever it says is the client's, but for errors. */
export const PASS: WireDialect = {
  name: "pass",
  createFrames: ({ redact }) => new PassFrames({ redact, readsUsage: true }),
  async readUsage(bytes) {
    try {
      return usageOf(await readAnswerMembers(bytes, { wanted: USAGE }));
    } catch {
      // Whatever else it is, is the client's.
      return null;
    }
  },
  estimates: "nothing",
};

/** The same where nothing but the text of the request is billed. */
export const PASS_INPUT: WireDialect = { ...PASS, estimates: "input" };

/** The same for requests that cost no tokens: the usage of an object that is looked at was booked elsewhere. */
export const PASS_UNBILLED: WireDialect = {
  ...PASS,
  createFrames: ({ redact }) => new PassFrames({ redact, readsUsage: false }),
  readUsage: () => Promise.resolve(null),
};

/** Tokens by any of the names they have: those of chat, of responses, or a total alone (rerankers). */
function usageOf(answer: unknown): Usage | null {
  const usage = isJsonObject(answer) ? answer["usage"] : null;
  if (!isJsonObject(usage)) return null;
  const known = readUsage(usage);
  if (known !== null) return known;
  const { input_tokens: input, output_tokens: output, total_tokens: total } = usage;
  return readUsage({
    prompt_tokens: input ?? (output === undefined ? total : undefined),
    completion_tokens: output,
    total_tokens: total,
    prompt_tokens_details: usage["input_tokens_details"],
    completion_tokens_details: usage["output_tokens_details"],
  });
}

function parse(text: string): unknown {
  try {
    return parseFrame(text);
  } catch {
    return null;
  }
}
