import type { Clock } from "../../core/clock.ts";
import { sleep } from "../../core/clock.ts";
import type { JsonObject } from "../../core/json.ts";
import { type AskedHub, askHub, assertAnswered, postJson, textOf } from "../ask_hub.ts";
import { EXIT } from "../exit_codes.ts";
import { createShow, exitCodeOf } from "../show_event.ts";
import { followEvents } from "./follow_events.ts";
import { Questions } from "./questions.ts";
import type { Terminal } from "./terminal.ts";

/** What a conversation with an agent needs. */
export interface TalkOptions {
  hub: AskedHub;
  terminal: Terminal;
  clock: Clock;
  /** Of a message, so that saying it twice is saying it once. */
  nextId(): string;
  /** Ends with the chat. */
  signal: AbortSignal;
  /** Takes a line that is a command, while something is asked; false when it is none. */
  command(line: string): Promise<boolean>;
  /** Goes with each message: `model`, `budget` and the like. */
  extra: JsonObject;
}

const SAY_TRIES = 4;
const SAY_PAUSE_MS = 500;

/** A conversation: which session, which agent, and the run that goes on. */
export class Talk {
  readonly #options: TalkOptions;
  readonly #isTerminal = Deno.stdout.isTerminal();
  #sessionId: string | null;
  #agent: string | null;
  #run: { runId: string; isStopping: boolean } | null = null;
  /** Resolves once it is known whether a run goes on; null when it is. */
  #beginning: PromiseWithResolvers<void> | null = null;
  #isSaying = false;

  /** Null for a session makes one with the first message; null for an agent takes the session's, or `default`. */
  constructor(
    options: TalkOptions,
    { sessionId, agent }: { sessionId: string | null; agent: string | null },
  ) {
    this.#options = options;
    this.#sessionId = sessionId;
    this.#agent = agent;
  }

  /** Null before the first message. */
  get sessionId(): string | null {
    return this.#sessionId;
  }

  /** The agent that answers; null for the session's own. */
  get agent(): string | null {
    return this.#agent;
  }

  /** Another agent answers from now on. */
  useAgent(name: string): void {
    this.#agent = name;
  }

  /** Goes on with another session, whose own agent answers; null begins a new one with the next message. */
  useSession(sessionId: string | null): void {
    this.#sessionId = sessionId;
    if (sessionId !== null) this.#agent = null;
  }

  /** The run that is shown now. */
  get runId(): string | null {
    return this.#run?.runId ?? null;
  }

  /** Whether a run goes on, or is about to begin. */
  get isBusy(): boolean {
    return this.#run !== null || this.#isSaying;
  }

  /** Whether a run goes on that nobody has stopped yet. */
  get mayStop(): boolean {
    return this.#run?.isStopping === false;
  }

  /** Does what may lead to a run that is shown: what is said meanwhile waits for it. */
  async begin<T>(work: () => Promise<T>): Promise<T> {
    const beginning = Promise.withResolvers<void>();
    this.#beginning = beginning;
    try {
      return await work();
    } finally {
      if (this.#beginning === beginning) this.#begun();
    }
  }

  #begun(): void {
    this.#beginning?.resolve();
    this.#beginning = null;
    this.#isSaying = false;
  }

  /**
   * Says something: to the run that goes on, which reads it at its next step, or else to the agent, and shows what becomes
   * of it. Gives the exit code of `loophub run`.
   */
  async say(text: string): Promise<number> {
    while (this.#beginning !== null) await this.#beginning.promise;
    if (this.#run === null) return await this.begin(() => this.#sayFirst(text));
    await this.#steer(this.#run.runId, text);
    return EXIT.ok;
  }

  async #sayFirst(text: string): Promise<number> {
    const { hub } = this.#options;
    this.#isSaying = true;
    const agent = this.#agent === null ? {} : { agent: this.#agent };
    if (this.#sessionId === null) {
      const made = await askHub(hub, "/v1/sessions", postJson(agent));
      this.#sessionId = textOf(made["id"]);
    }
    const path = `/v1/sessions/${encodeURIComponent(this.#sessionId)}/messages`;
    const body = { id: this.#options.nextId(), text, ...agent, ...this.#options.extra };
    const first = await this.#send(path, postJson(body, { signal: this.#options.signal }));
    return await this.follow(first.headers.get("x-loophub-run") ?? "", first);
  }

  /** Shows a run to its end, and asks what it asks. */
  async follow(runId: string, first: Response | null = null): Promise<number> {
    const { hub, terminal, clock, command } = this.#options;
    const over = new AbortController();
    const signal = AbortSignal.any([over.signal, this.#options.signal]);
    const questions = new Questions({ hub, terminal, runId, signal, command });
    const show = createShow({ isTerminal: this.#isTerminal, screen: terminal });
    this.#run = { runId, isStopping: false };
    this.#begun();
    let code: number = EXIT.failed;
    try {
      const onBreak = () => terminal.printError(`${hub.name} is away; trying again`);
      const asked = { runId, first, clock, signal: this.#options.signal, onBreak };
      for await (const event of followEvents(hub, asked)) {
        if (!questions.take(event)) show(event);
        if (event.type === "finish") code = exitCodeOf(event.finishReason);
      }
    } finally {
      this.#run = null;
      over.abort();
      await questions.settled();
    }
    return code;
  }

  /** Stops the run that goes on, if there is one. */
  async stop(): Promise<void> {
    const { hub, terminal } = this.#options;
    if (this.#run === null) return terminal.printError("Nothing goes on");
    this.#run.isStopping = true;
    await askHub(hub, `/v1/runs/${encodeURIComponent(this.#run.runId)}/stop`, { method: "POST" });
  }

  async #steer(runId: string, text: string): Promise<void> {
    const path = `/v1/runs/${encodeURIComponent(runId)}/steer`;
    await askHub(this.#options.hub, path, postJson({ text, id: this.#options.nextId() }));
  }

  /** The same message again, as long as nobody answers: its id makes it one. */
  async #send(path: string, init: RequestInit): Promise<Response> {
    const { hub, clock, signal } = this.#options;
    for (let tries = 1;; tries++) {
      let answer: Response;
      try {
        answer = await hub.send(path, init);
      } catch (error) {
        signal.throwIfAborted();
        if (tries === SAY_TRIES) throw error;
        await sleep(clock, SAY_PAUSE_MS * tries, signal);
        continue;
      }
      await assertAnswered(hub, answer);
      return answer;
    }
  }
}
