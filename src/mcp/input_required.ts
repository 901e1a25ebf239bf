import type { LoadedMcpServer } from "../config/complete_mcp_servers.ts";
import { isJsonObject, type Json, type JsonObject } from "../core/json.ts";
import type { CallingAgain } from "../core/tool.ts";
import {
  type Asker,
  elicitationOf,
  readQuestion,
  type ServerAnswers,
  withDefaults,
} from "./answer_questions.ts";

/** What a server wants before it answers a request, since revision 2026-07-28. */
export interface WantedInput {
  requests: readonly { key: string; method: string; params: JsonObject }[];
  /** Handed back with the answers as it is. */
  state: string | undefined;
}

/** A request that its caller is to make again, with the answers that the result asks for. */
export class InputRequired extends Error {
  override readonly name = "InputRequired";
  readonly result: JsonObject;

  constructor(result: JsonObject) {
    super("The MCP server wants more before it answers");
    this.result = result;
  }
}

/** What is not answered. The connection is well: it has a code, as errors of the protocol have. */
export class InputRefused extends Error {
  override readonly name = "InputRefused";
  readonly code = "INPUT_REFUSED";
}

const RESULT_TYPE = "input_required";
const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
const MAX_REQUESTS = 20;
const MAX_STATE_CHARS = 256 * 1024;

/** Whether an answer asks for more. */
export function wantsInput(answer: Json): answer is JsonObject {
  return isJsonObject(answer) && answer.resultType === RESULT_TYPE;
}

/** What such an answer asks for. Throws for more than is passed on. */
export function readInput({ inputRequests, requestState }: JsonObject): WantedInput {
  const entries = isJsonObject(inputRequests) ? Object.entries(inputRequests) : [];
  if (entries.length > MAX_REQUESTS) {
    throw new InputRefused(
      `The server asks ${entries.length} things at once, ${MAX_REQUESTS} are taken`,
    );
  }
  const state = typeof requestState === "string" ? requestState : undefined;
  if (state !== undefined && state.length > MAX_STATE_CHARS) {
    throw new InputRefused(
      `The server's state has ${state.length} characters, ${MAX_STATE_CHARS} are taken`,
    );
  }
  const requests = entries.map(([key, entry]) => {
    const { method, params } = isJsonObject(entry) ? entry : {};
    const name = typeof method === "string" ? method : "";
    return { key, method: name, params: isJsonObject(params) ? params : {} };
  });
  return { requests, state };
}

/** What a server is told that a caller can be asked, who is asked by the result: that, and what the hub can give itself. */
export function withCapabilities(
  params: JsonObject,
  { capabilities: { elicitation, sampling, roots: theirs } }: CallingAgain,
  { sampling: ours, roots = [] }: LoadedMcpServer,
): JsonObject {
  const mayAskModels = ours !== false && (ours !== undefined || sampling !== undefined);
  const hasRoots = roots.length > 0 || theirs !== undefined;
  const can = {
    ...elicitation === undefined ? {} : { elicitation },
    ...mayAskModels ? { sampling: sampling ?? {} } : {},
    ...hasRoots ? { roots: theirs ?? {} } : {},
  };
  const { _meta: meta } = params;
  return { ...params, _meta: { ...isJsonObject(meta) ? meta : {}, [CAPABILITIES]: can } };
}

/** What a caller hands in who calls again. */
export function givenAgain({ responses, state }: CallingAgain): JsonObject {
  return {
    ...responses === undefined ? {} : { inputResponses: responses },
    ...state === undefined ? {} : { requestState: state },
  };
}

/** Whether the hub can give all of it without the caller: places and models that it was configured with. */
export function isOurs(
  { requests }: WantedInput,
  { sampling, roots = [] }: LoadedMcpServer,
): boolean {
  const ours = (method: string) =>
    method === "roots/list" && roots.length > 0 ||
    method === "sampling/createMessage" && typeof sampling === "object";
  return requests.length > 0 && requests.every(({ method }) => ours(method));
}

/** The result that asks the caller, with the server's name before its words. Throws for what nobody could be shown. */
export function toCaller(
  { requests, state }: WantedInput,
  { slug, sampling }: LoadedMcpServer,
): JsonObject {
  const passed = requests.map(({ key, method, params }): [string, JsonObject] => {
    switch (method) {
      case "elicitation/create": {
        const question = readQuestion(slug, params);
        if (question === null) throw new InputRefused("The server asks what nobody could be shown");
        return [key, { method, params: elicitationOf(question) }];
      }
      case "sampling/createMessage":
        if (sampling === false) throw new InputRefused("The server may not ask models");
        return [key, { method, params }];
      case "roots/list":
        return [key, { method, params }];
      default:
        throw notKnown(method);
    }
  });
  return {
    resultType: RESULT_TYPE,
    ...passed.length === 0 ? {} : { inputRequests: Object.fromEntries(passed) },
    ...state === undefined ? {} : { requestState: state },
  };
}

/** The parameters of the next request, with the answers of those who can be asked in the middle of this one. */
export async function answerInput(
  { requests, state }: WantedInput,
  { asker, answers }: { asker: Asker; answers: ServerAnswers },
): Promise<JsonObject> {
  const given = await Promise.all(
    requests.map(async ({ key, method, params }) => {
      switch (method) {
        case "elicitation/create":
          return [key, withDefaults(params, await answers.elicit(asker, params, asker.signal))];
        case "sampling/createMessage":
          return [key, await answers.sample(asker, params)];
        case "roots/list":
          if (answers.roots === null) throw new InputRefused("The hub has no roots");
          return [key, answers.roots];
        default:
          throw notKnown(method);
      }
    }),
  );
  return {
    ...given.length === 0 ? {} : { inputResponses: Object.fromEntries(given) },
    ...state === undefined ? {} : { requestState: state },
  };
}

function notKnown(method: string): InputRefused {
  return new InputRefused(
    `The server asks for ${method.slice(0, 64)}, which is nothing that is answered`,
  );
}
