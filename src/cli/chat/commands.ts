import { isJsonObject, type Json, type JsonObject } from "../../core/json.ts";
import { type AskedHub, type AskedList, askHub, askList, objectsOf, textOf } from "../ask_hub.ts";
import { formatCost } from "../show_event.ts";
import type { Talk } from "./talk.ts";
import type { Terminal } from "./terminal.ts";

/** What commands of a chat work on. */
export interface CommandOptions {
  hub: AskedHub;
  terminal: Terminal;
  talk: Talk;
  leave(): void;
}

export const HELP = `/tools            what the agent can do
/skills           what it can load when it needs it
/agents [NAME]    agents; with a name, that one answers from now on
/sessions         the latest sessions
/resume [ID]      goes on with a session: its id, its number in /sessions, or the latest
/new              begins a new session
/approve          asks again what the session's run waits for
/cost             tokens and cost of this session
/stop             stops the run that goes on (as Ctrl-C does)
/quit             leaves (as Ctrl-D does)
While a run goes on, what you type is said to it. A line that begins with // is said with one /.`;

const LISTED = 20;
const SHOWN_MESSAGES = 6;
const MAX_WIDTH = 100;

/** Commands of a chat. Each gives the exit code of the run that it has shown, null when there was none. */
export class Commands {
  readonly #options: CommandOptions;
  #listed: string[] = [];

  constructor(options: CommandOptions) {
    this.#options = options;
  }

  /** Does what a line that begins with `/` says; false when there is no such command. */
  async run(line: string): Promise<{ known: boolean; code: number | null }> {
    const { talk, terminal, leave } = this.#options;
    const [name = "", argument = ""] = line.trim().split(/\s+/);
    let code: number | null = null;
    switch (name) {
      case "/help":
        terminal.printError(HELP);
        break;
      case "/tools":
        await this.#tools();
        break;
      case "/skills":
        await this.#skills();
        break;
      case "/agents":
        await this.#agents(argument);
        break;
      case "/sessions":
        await this.#sessions();
        break;
      case "/resume":
        code = await this.#resume(argument);
        break;
      case "/new":
        if (this.#isFree()) talk.useSession(null);
        break;
      case "/approve":
        code = await this.#approve();
        break;
      case "/cost":
        await this.#cost();
        break;
      case "/stop":
        await talk.stop();
        break;
      case "/quit":
      case "/exit":
        leave();
        break;
      default:
        return { known: false, code: null };
    }
    return { known: true, code };
  }

  /** False, and said, while a run goes on. */
  #isFree(): boolean {
    const { talk, terminal } = this.#options;
    if (!talk.isBusy) return true;
    terminal.printError("A run goes on: /stop it first, or wait for its end");
    return false;
  }

  async #tools(): Promise<void> {
    const name = this.#options.talk.agent ?? await this.#sessionAgent();
    const agent = await this.#ask(`/v1/agents/${encodeURIComponent(name)}`);
    const lines = objectsOf(agent["tools"]).map((tool) => {
      const asks = tool["approval"] !== "never" ? ", asks" : "";
      const facts = `${textOf(tool["risk"])} risk${asks}`;
      return `${textOf(tool["name"])} (${facts})  ${firstSentence(textOf(tool["description"]))}`;
    });
    this.#list(lines, `The agent ${name} has no tools`);
  }

  async #skills(): Promise<void> {
    const name = this.#options.talk.agent ?? await this.#sessionAgent();
    const { items: skills, answer: { invalid } } = await this.#askList(
      `/v1/skills?agent=${encodeURIComponent(name)}`,
    );
    const lines = skills.map(({ name, tier, description }) =>
      `${textOf(name)} (${textOf(tier)})  ${firstSentence(textOf(description))}`
    );
    const wrong = objectsOf(invalid).map(({ path, problem }) =>
      `! ${textOf(path)}: ${textOf(problem)}`
    );
    this.#list([...lines, ...wrong], `The agent ${name} has no skills`);
  }

  async #agents(name: string): Promise<void> {
    const { talk } = this.#options;
    if (name !== "") {
      if (!this.#isFree()) return;
      await this.#ask(`/v1/agents/${encodeURIComponent(name)}`);
      talk.useAgent(name);
      this.#options.terminal.printError(`${name} answers from now on`);
      return;
    }
    const current = talk.agent ?? await this.#sessionAgent();
    const { items: agents } = await this.#askList("/v1/agents");
    const lines = agents.map((agent) => {
      const mark = agent["name"] === current ? "*" : " ";
      const what = firstSentence(textOf(agent["description"]));
      return `${mark} ${textOf(agent["name"])}  ${textOf(agent["model"])}  ${what}`.trimEnd();
    });
    this.#list(lines, "This key may run no agent");
  }

  async #sessions(): Promise<void> {
    const sessions = await this.#latest();
    this.#listed = sessions.map(({ id }) => textOf(id));
    const lines = sessions.map((session, at) => {
      const { id, agent, messageCount, updatedAt, status, title } = session;
      const mark = id === this.#options.talk.sessionId ? "*" : " ";
      const running = status === "running" ? "  running" : "";
      const when = textOf(updatedAt).slice(0, 16).replace("T", " ");
      const what = firstLine(textOf(title));
      return `${mark} ${at + 1}  ${textOf(id)}  ${when}  ${textOf(agent)}  ${
        Number(messageCount)
      } messages${running}  ${what}`.trimEnd();
    });
    this.#list(lines, "There are no sessions");
  }

  async #resume(which: string): Promise<number | null> {
    if (!this.#isFree()) return null;
    const { talk, terminal } = this.#options;
    const id = /^\d{1,2}$/.test(which)
      ? this.#listed[Number(which) - 1]
      : which !== ""
      ? which
      : (await this.#latest()).map(({ id }) => textOf(id)).find((id) => id !== talk.sessionId);
    if (id === undefined) {
      terminal.printError("There is no such session; see /sessions");
      return null;
    }
    const path = `/v1/sessions/${encodeURIComponent(id)}`;
    const session = await this.#ask(path);
    talk.useSession(textOf(session["id"]));
    await this.#recall(session);
    return await this.#followActive(session);
  }

  /** Shows how a session ended last. */
  async #recall(session: JsonObject): Promise<void> {
    const { terminal } = this.#options;
    const path = `/v1/sessions/${encodeURIComponent(textOf(session["id"]))}/messages`;
    let messages: JsonObject[] = [];
    let after = "";
    do {
      const query = after === "" ? "" : `&after=${encodeURIComponent(after)}`;
      const { items, nextCursor } = await this.#askList(`${path}?limit=200${query}`);
      messages = [...messages, ...items].slice(-SHOWN_MESSAGES);
      after = nextCursor;
    } while (after !== "");
    terminal.printError(`session ${textOf(session["id"])}, agent ${textOf(session["agent"])}`);
    for (const { role, parts } of messages) {
      const said = objectsOf(parts).map((part) => textOf(part["text"])).join(" ").trim();
      if (said !== "") terminal.printError(`${textOf(role)}: ${said.slice(0, 1000)}`);
    }
  }

  async #approve(): Promise<number | null> {
    if (!this.#isFree()) return null;
    const { talk, terminal } = this.#options;
    if (talk.sessionId === null) {
      terminal.printError("Nothing waits for you");
      return null;
    }
    const session = await this.#ask(`/v1/sessions/${encodeURIComponent(talk.sessionId)}`);
    const code = await this.#followActive(session);
    if (code === null) terminal.printError("Nothing waits for you");
    return code;
  }

  async #followActive({ activeRun }: JsonObject): Promise<number | null> {
    const runId = isJsonObject(activeRun) ? textOf(activeRun["runId"]) : "";
    return runId === "" ? null : await this.#options.talk.follow(runId);
  }

  async #cost(): Promise<void> {
    const { talk, terminal } = this.#options;
    if (talk.sessionId === null) return terminal.printError("Nothing was used so far");
    const session = await this.#ask(`/v1/sessions/${encodeURIComponent(talk.sessionId)}`);
    const usage = isJsonObject(session["usage"]) ? session["usage"] : {};
    const cost = session["costMicros"];
    const told = typeof cost === "number" ? formatCost(cost) : "cost unknown";
    terminal.printError(
      `${numberOf(usage["promptTokens"])} + ${numberOf(usage["completionTokens"])} tokens, ${told}`,
    );
  }

  async #sessionAgent(): Promise<string> {
    const { talk } = this.#options;
    if (talk.sessionId === null) return "default";
    const session = await this.#ask(`/v1/sessions/${encodeURIComponent(talk.sessionId)}`);
    return textOf(session["agent"]);
  }

  async #latest(): Promise<JsonObject[]> {
    return (await this.#askList(`/v1/sessions?limit=${LISTED}`)).items;
  }

  #list(lines: readonly string[], none: string): void {
    this.#options.terminal.printError(lines.length === 0 ? none : lines.join("\n"));
  }

  #ask(path: string): Promise<JsonObject> {
    return askHub(this.#options.hub, path);
  }

  #askList(path: string): Promise<AskedList> {
    return askList(this.#options.hub, path);
  }
}

/** The first sentence of a text, where that is on its first line. */
function firstSentence(text: string): string {
  const line = text.trimStart().split("\n", 1)[0] ?? "";
  return fit(/^.*?[.!?](?=\s+\p{Lu})/u.exec(line)?.[0] ?? line);
}

function firstLine(text: string): string {
  return fit(text.split("\n", 1)[0] ?? "");
}

/** A line that is too long is cut between words, and says so. */
function fit(line: string): string {
  if (line.length <= MAX_WIDTH) return line;
  const cut = line.slice(0, MAX_WIDTH);
  const end = cut.lastIndexOf(" ");
  return `${cut.slice(0, end > 0 ? end : MAX_WIDTH - 1).toWellFormed().trimEnd()}…`;
}

function numberOf(value: Json | undefined): number {
  return typeof value === "number" ? value : 0;
}
