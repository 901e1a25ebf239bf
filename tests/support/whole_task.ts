import assert from "node:assert/strict";
import type { JsonObject } from "../../src/core/json.ts";
import type { Database } from "../../src/store/database.ts";
import { noneWith } from "./processes.ts";
import { bubblewrap } from "../operations/files/rig.ts";
import type { Asked } from "./approvals_rig.ts";
import { startHubProcess } from "./hub_process.ts";
import { openTestDatabase, startTestPostgres } from "./postgres.ts";
import { chatStream, type RecordedRequest, startScriptedUpstream } from "./scripted_upstream.ts";
import { eventually } from "./test_hub.ts";

/**
 * Where a hub may be killed: in the model's first answer, while a person is asked, in the answer that reads a denial, in
 * a command that has had its effect, in the answer during which the user has said something, in the conclusion.
 */
export const KILLS = ["reads", "asks", "denied", "runs", "steered", "concludes"] as const;

/** One of these places. */
export type Kill = (typeof KILLS)[number];

/** What the task begins with. */
export const ENTRIES = Array.from({ length: 5000 }, (_, at) => `entry ${at + 1}, äöü`).join("\n") +
  "\n";
const build = (price: number) =>
  `price=${price}\necho built >> ran.log\necho the price is $price\n[ ! -e hold ] || sleep 600\n`;
const NOTES = "The price shall be 42.\n";

/** What the workspace holds at the end, and nothing else. */
export const WORKSPACE_AFTER = {
  "build.sh": build(42),
  "entries.txt": ENTRIES,
  "notes.md": NOTES,
  "ran.log": "built\n",
};

type Call = [name: string, input: JsonObject];

const read = (path: string): Call => ["file_read", { path, offset: null, limit: null }];
const shell = (command: string, ...args: string[]): Call => [
  "shell_run",
  { command, args, cwd: null, timeoutMs: null },
];
const readOn = (ref: string, more: JsonObject): Call => [
  "hub_read_result",
  { ref, offset: null, limit: null, grep: null, ...more },
];

/** The calls of each step; `ref` is the one that a cut result names. Behind them the model concludes. */
export const stepsOf = (ref: string): Call[][] => [
  [read("notes.md"), read("build.sh")],
  [["file_edit", {
    path: "build.sh",
    oldText: "price=41",
    newText: "price=42",
    all: null,
    hash: null,
  }]],
  [["file_delete", { path: "notes.md", recursive: null }]],
  [shell("sh", "build.sh")],
  [read("ran.log")],
  [shell("cat", "entries.txt")],
  [readOn(ref, { offset: 2500, limit: 2 })],
  [shell("wc", "-l", "entries.txt"), readOn(ref, { grep: "ENTRY 4321," })],
];
const BUILDS = 3;
const READS_ON = 6;
export const CONCLUDES = 8;
export const STEERING = "Count the entries too";
export const CONCLUSION = "The price is 42, there are 5000 entries.";
/** A step has 100 tokens: the ninth is the last that has room, and the model is told to conclude in it. */
export const USAGE = { promptTokens: 90, completionTokens: 10 };
/** What calls of killed hubs have used counts too, so that only the number of steps is the same with and without them. */
export const budgetOf = (kills: ReadonlySet<Kill>) =>
  kills.size === 0 ? { tokens: 950 } : { steps: CONCLUDES + 1 };

/** One request of the model, as the hub made it. */
export interface Asking {
  step: number;
  toolChoice: unknown;
  messages: { role: string; content: string }[];
}

/** What the task has left. */
export interface Done {
  runId: string;
  session: string;
  /** The stream as one client has read it, across hubs. */
  seen: string;
  /** The stream as the last hub tells it from its begin. */
  replay: string;
  requests: Asking[];
  questions: Asked[];
  workspace: Record<string, string>;
  db: Database;
  get(path: string): Promise<Response>;
}

/** Does the task with a hub as a process of its own, which is killed in these places and followed by another one. */
export async function withTask(
  kills: ReadonlySet<Kill>,
  body: (done: Done) => Promise<void>,
): Promise<void> {
  const upstream = await startScriptedUpstream();
  const postgres = await startTestPostgres({ migrated: false });
  const base = await Deno.realPath(
    await Deno.makeTempDir({ dir: "/tmp", prefix: "loophub-task-" }),
  );
  const [folder, dir] = [`${base}/hub`, `${base}/ws`];
  const pricing = { inputPerMillion: 1, outputPerMillion: 2 };
  const config = {
    providers: { one: { baseUrl: upstream.url, models: { m: { pricing } } } },
    defaultModel: "one/m",
    workspace: {
      dir,
      approval: "never",
      sandbox: bubblewrap.works ? "required" : "off",
      shell: { allow: ["sh build.sh", "cat entries.txt", "wc -l"] },
    },
    agents: {
      default: { tools: ["file.read", "file.edit", "file.delete", "shell.run", "hub.read_result"] },
    },
    runs: { approvalTimeoutMs: 600_000 },
  };
  await Deno.mkdir(folder);
  await Deno.mkdir(dir);
  await Deno.writeTextFile(`${folder}/loophub.json`, JSON.stringify(config));
  await Deno.writeTextFile(`${dir}/notes.md`, NOTES);
  await Deno.writeTextFile(`${dir}/build.sh`, build(41));
  await Deno.writeTextFile(`${dir}/entries.txt`, ENTRIES);

  const requests: Asking[] = [];
  const steered = Promise.withResolvers<void>();
  /** The step whose answer never comes to its end. */
  let stalls = -1;
  upstream.script(async (request) => {
    const asking = toAsking(request);
    const { step, messages } = asking;
    requests.push(asking);
    if (step === stalls) return chatStream({ text: "Half a thought", endAfter: 3, end: "stall" });
    if (step === READS_ON) await steered.promise;
    if (step === CONCLUDES) return chatStream({ text: CONCLUSION, usage: USAGE });
    const ref = /kept as (blob_[0-9a-f]{32})/.exec(JSON.stringify(messages))?.[1] ?? "";
    const calls = stepsOf(ref)[step] ?? assert.fail(`step ${step}`);
    const toolCalls = calls.map(([name, input]) => ({ name, arguments: input }));
    return chatStream({ text: `Step ${step}.`, toolCalls, usage: USAGE });
  });

  const startHub = () => startHubProcess(folder, { DATABASE_URL: postgres.url });
  let hub = await startHub();
  const db = openTestDatabase(postgres.url);
  try {
    const key = await eventually(() => hub.key());
    const call = (path: string, body?: JsonObject, headers: Record<string, string> = {}) =>
      fetch(hub.url + path, {
        method: body === undefined ? "GET" : "POST",
        headers: {
          authorization: `Bearer ${key}`,
          ...body === undefined ? {} : { "content-type": "application/json" },
          ...headers,
        },
        ...body === undefined ? {} : { body: JSON.stringify(body) },
      });
    const jsonOf = async (path: string, body?: JsonObject) => await (await call(path, body)).json();
    let cut = 0;
    const dies = async (place: Kill, ready: () => Promise<void> = async () => {}) => {
      if (!kills.has(place)) return;
      await ready();
      await usageIsWritten(db, cut);
      if (stalls >= 0) await callIsNoted(db, stalls);
      await hub.end("SIGKILL");
      // The dead hub's lease ends now and not in 15 s; a short lease would be lost by a living hub on a busy machine.
      await db.control.unsafe(
        `update hub.runs set lease_until = now() where lease_until is not null`,
      );
      if (stalls >= 0) cut++;
      stalls = -1;
      hub = await startHub();
    };
    const modelIsAsked = async (step: number) => {
      await eventually(() => requests.some((one) => one.step === step) || null, 60_000);
    };

    if (kills.has("reads")) stalls = 0;
    const session: string = (await jsonOf("/v1/sessions", {})).id;
    const first = await call(`/v1/sessions/${session}/messages`, {
      text: "Go",
      budget: budgetOf(kills),
    });
    const runId = first.headers.get("x-loophub-run") ?? assert.fail(await first.text());
    const reading = follow(
      first,
      (seq) => call(`/v1/runs/${runId}/stream`, undefined, { "last-event-id": seq }),
    );
    reading.catch(() => {});
    const untilAsked = async (count: number) =>
      await eventually(async (): Promise<Asked | null> => {
        const { data: approvals } = await jsonOf(`/v1/runs/${runId}/approvals`);
        if (approvals.length < count) return null;
        const { status } = await jsonOf(`/v1/runs/${runId}`);
        return status === "waiting" ? approvals[count - 1] : null;
      }, 60_000);
    const say = async (asked: Asked, body: JsonObject) => {
      const hash = asked.hash;
      const said = await call(`/v1/runs/${runId}/approvals/${asked.id}`, { ...body, hash });
      assert.equal(said.status, 200, await said.text());
    };

    await dies("reads", () => modelIsAsked(0));
    const edit = await untilAsked(1);
    await dies("asks");
    await say(edit, { approved: true });
    const removal = await untilAsked(2);
    if (kills.has("denied")) stalls = BUILDS;
    await say(removal, { approved: false, reason: "keep the notes" });
    await dies("denied", () => modelIsAsked(BUILDS));
    const run = await untilAsked(3);
    if (kills.has("runs")) await Deno.writeTextFile(`${dir}/hold`, "");
    await say(run, { approved: true, remember: "session" });
    await dies("runs", async () => {
      await eventually(async () => {
        const ran = await Deno.readTextFile(`${dir}/ran.log`).catch(() => "");
        return ran === WORKSPACE_AFTER["ran.log"] || null;
      });
    });
    if (kills.has("runs")) {
      await noneWith(dir);
      await Deno.remove(`${dir}/hold`);
    }
    const show = await untilAsked(4);
    if (kills.has("steered")) stalls = READS_ON;
    await say(show, { approved: true, remember: "session" });
    await modelIsAsked(READS_ON);
    const said = await call(`/v1/runs/${runId}/steer`, { text: STEERING, id: "s1" });
    assert.equal(said.status, 202, await said.text());
    steered.resolve();
    await dies("steered");
    if (kills.has("concludes")) stalls = CONCLUDES;
    await dies("concludes", () => modelIsAsked(CONCLUDES));

    const seen = await reading;
    await usageIsWritten(db, cut);
    const replay = await (await call(`/v1/runs/${runId}/stream`)).text();
    await body({
      runId,
      session,
      seen,
      replay,
      requests,
      questions: (await jsonOf(`/v1/runs/${runId}/approvals`)).approvals,
      workspace: await contentsOf(dir),
      db,
      get: (path) => call(path),
    });
  } finally {
    await db.close();
    await hub.end("SIGKILL");
    await upstream.stop();
    await postgres.stop();
    await Deno.remove(base, { recursive: true });
  }
}

/** Rows of usage are written a moment later, those of calls that were cut too, and what a hub has not written dies with it. */
async function usageIsWritten(db: Database, cut: number): Promise<void> {
  await eventually(async () => {
    const [row] = await db.read`select
      (select count(*)::int from hub.steps where state = 'done') as steps,
      (select count(*)::int from hub.usage where outcome = 'ok') as rows,
      (select count(*)::int from hub.usage where outcome = 'cut') as cut`;
    return row?.["rows"] === row?.["steps"] && row?.["cut"] === cut || null;
  });
}

/** A call of the model is noted while it is under way; a hub that is killed sooner leaves no trace of it. */
async function callIsNoted(db: Database, step: number): Promise<void> {
  await eventually(async () => {
    const noted = await db.read`select 1 from hub.model_calls where step = ${step}`;
    return noted.length > 0 || null;
  });
}

function toAsking({ json: { tool_choice }, messages }: RecordedRequest): Asking {
  const step = messages.filter(({ role }) => role === "assistant").length;
  return { step, toolChoice: tool_choice, messages };
}

/** What a client reads that goes on behind the last whole event it has, wherever it finds the run. */
async function follow(
  first: Response,
  again: (seq: string) => Promise<Response>,
): Promise<string> {
  let text = "";
  for (let answer = first;;) {
    assert.equal(answer.status, 200);
    text += await wholeFrames(answer);
    if (text.includes('\ndata: {"type":"finish"')) return text;
    const seq = [...text.matchAll(/^id: (\d+)$/gm)].at(-1)?.[1] ?? "0";
    answer = await eventually(() => again(seq).catch(() => null), 120_000);
  }
}

/** The frames of a stream until it ends or breaks. */
async function wholeFrames(answer: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const bytes of answer.body ?? []) text += decoder.decode(bytes, { stream: true });
  } catch (error) {
    assert.ok(error instanceof TypeError, String(error));
  }
  return text.slice(0, text.lastIndexOf("\n\n") + 2);
}

/** The text of each file under a folder. */
async function contentsOf(dir: string): Promise<Record<string, string>> {
  const contents: Record<string, string> = {};
  for await (const { name, isFile } of Deno.readDir(dir)) {
    contents[name] = isFile ? await Deno.readTextFile(`${dir}/${name}`) : "not a file";
  }
  return contents;
}
