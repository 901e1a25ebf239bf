import { Type } from "@sinclair/typebox";
import type { CostBound } from "../../core/cost.ts";
import { HubError } from "../../core/error.ts";
import {
  assertPasses,
  type ChooseProvider,
  PROVIDER_HEADER,
} from "../../router/choose_provider.ts";
import type { Answer, OpenAnswer } from "../../router/open_answer.ts";
import type { ResolveModel } from "../../router/resolve.ts";
import type { Route as TargetRoute } from "../../router/route.ts";
import { NO_MODEL } from "../../providers/target.ts";
import { PASS, PASS_INPUT, PASS_UNBILLED } from "../../wire/pass_wire.ts";
import { askedBy } from "../asked_by.ts";
import type { Call } from "../call.ts";
import { bytesReply, emptyReply, type Reply, streamReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { SSE_HEADERS } from "../sse_response.ts";
import { awaitAnswer } from "./await_answer.ts";
import {
  type BodyBounds,
  type CarriedBody,
  NO_BODY,
  readCarriedBody,
  uploadBody,
} from "./carried_body.ts";
import { readWholeAnswer, show, wholeHeaders } from "./completion_reply.ts";
import { addressOf, passedFields } from "./pass_through_head.ts";
import { PASS_TABLE, type PassRow } from "./pass_through_table.ts";

/** What the routes need that pass requests through. */
export interface PassThroughOptions {
  resolve: ResolveModel;
  chooseProvider: ChooseProvider;
  openAnswer: OpenAnswer;
  bounds: BodyBounds;
}

/** A provider's file must not become a page of the hub's origin. */
const HARMLESS: Readonly<Record<string, string>> = Object.freeze({
  "x-content-type-options": "nosniff",
  "content-security-policy": "sandbox; default-src 'none'",
});
const NO_CONTENT = 204;
const WIRES = { input: PASS_INPUT, output: PASS, later: PASS_UNBILLED, nothing: PASS_UNBILLED };
const BOUNDS = { input: "tokens", output: "limit", later: "none", nothing: "free" } as const;

/** The routes of the table: a request goes to its provider as it came, the answer comes back as it came. */
export function passThroughRoutes(options: PassThroughOptions): Route[] {
  return PASS_TABLE.map((row) =>
    defineRoute({
      ...row,
      auth: "user",
      tag: "proxy",
      params: paramsOf(row.path),
      headers: { [PROVIDER_HEADER]: "The provider, for requests that name no model" },
      ...(row.method === "POST" && !row.path.endsWith("/cancel") ? { body: "raw" as const } : {}),
      responses: {
        200: {
          description: "The provider's answer",
          contentType: row.download === true ? "application/octet-stream" : "application/json",
        },
        400: { description: "The request is not valid, or does not say which provider it is for" },
        404: { description: "There is no such model, or the provider does not know the id" },
      },
      handle: (call) => pass(call, row, options),
    })
  );
}

function paramsOf(path: string) {
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name]) => name ?? "");
  return Type.Object(Object.fromEntries(names.map((name) => [name, Type.String()])));
}

async function pass(call: Call, row: PassRow, options: PassThroughOptions): Promise<Reply> {
  const { signal } = call;
  const { spends = "nothing" } = row;
  const { provider, path } = addressOf(call, row);
  const body = await bodyOf(call, row, options);
  const headers = passedFields(call.request, body.contentType);
  const chosen = targetsOf(body.model, { ...options, provider });
  const mayRepeat = row.method !== "POST" || spends === "input" || spends === "output";
  const once = body.isStreamed || !mayRepeat;
  // What is kept at a provider is found again under the same key only.
  const targets = once ? chosen.map((target) => target.lanes?.[0] ?? target) : chosen;
  const asker = askedBy(call, { kind: row.kind, publicModel: body.model ?? NO_MODEL });
  const answer = await awaitAnswer(call, () =>
    options.openAnswer({
      targets,
      prepare: ({ model }) => {
        const { body: bytes, source } = body.forModel(model);
        return {
          wire: WIRES[spends],
          body: bytes,
          hideUsage: false,
          carried: {
            method: row.method,
            path,
            headers,
            hasBody: body.contentType !== null,
            source,
            form: body.form,
            once,
            isFile: row.download === true,
          },
        };
      },
      once,
      stream: false,
      choices: spends === "output" ? body.choices : 0,
      signal,
      ...asker,
      facts: { ...asker.facts, bound: boundOf(body, spends) },
    }));
  return await replyWith(answer);
}

async function bodyOf(
  call: Call,
  { method, upload, spends, takesModel }: PassRow,
  { bounds }: PassThroughOptions,
): Promise<CarriedBody> {
  if (method !== "POST") return NO_BODY;
  if (upload === true) return uploadBody(call, bounds);
  return await readCarriedBody(call, {
    bounds,
    takesModel: takesModel === true,
    takesCount: spends === "output",
  });
}

/** What a file in a form costs is not told by its size. */
function boundOf({ isForm }: CarriedBody, spends: keyof typeof BOUNDS): CostBound {
  return isForm && spends !== "nothing" ? "none" : BOUNDS[spends];
}

/** A model chooses the provider; a provider that is named beside it must be one of its own. */
function targetsOf(
  model: string | null,
  { resolve, chooseProvider, provider }: PassThroughOptions & { provider: string | null },
): TargetRoute {
  if (model === null) return [chooseProvider(provider)];
  const targets = assertPasses(resolve(model));
  if (provider === null) return targets;
  const own = targets.filter((target) => target.provider === provider);
  if (own.length > 0) return own;
  throw new HubError(
    "invalid_request",
    `${
      JSON.stringify(model.slice(0, 100))
    } is not a model of the provider that ${PROVIDER_HEADER} names`,
    { param: PROVIDER_HEADER },
  );
}

async function replyWith(answer: Answer): Promise<Reply> {
  const { attempt } = answer;
  const status = attempt.status ?? 200;
  const contentType = attempt.header("content-type") ?? "application/octet-stream";
  const disposition = attempt.header("content-disposition");
  const headers = {
    ...HARMLESS,
    ...wholeHeaders(show(answer)),
    ...(disposition === null ? {} : { "content-disposition": disposition }),
    ...(attempt.stream ? SSE_HEADERS : {}),
  };
  if (status === NO_CONTENT) {
    await readWholeAnswer(answer);
    return emptyReply(status, headers);
  }
  if (!attempt.passes) {
    return bytesReply(await readWholeAnswer(answer), { status, contentType, headers });
  }
  const source = {
    pull: () => answer.read(),
    cancel: () => answer.cancel(new HubError("client_closed", "The client left")),
  };
  return streamReply(source, { status, contentType, headers, flush: attempt.stream });
}
