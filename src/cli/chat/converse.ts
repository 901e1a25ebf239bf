import type { JsonObject } from "../../core/json.ts";
import { type AskedHub, askHub } from "../ask_hub.ts";
import { EXIT } from "../exit_codes.ts";
import { readerGone } from "../print.ts";
import { systemClock } from "../system_clock.ts";
import { Commands } from "./commands.ts";
import { Talk } from "./talk.ts";
import { openTerminal } from "./terminal.ts";

/** What a chat begins with. */
export interface ChatWish {
  /** Null: the session's, or `default`. */
  agent: string | null;
  /** Null: a new one. */
  session: string | null;
  /** Goes with each message. */
  extra: JsonObject;
}

/**
 * Talks until the input ends. Gives 0 to people, 130 when Ctrl-C has ended it; to scripts the first exit code that was
 * not 0.
 */
export async function converse(hub: AskedHub, wish: ChatWish): Promise<number> {
  const leaving = new AbortController();
  const { signal } = leaving;
  let interrupted = false;
  let failed: number = EXIT.ok;
  const leave = () => leaving.abort(new Error("The chat is over"));
  const interrupt = () => {
    if (signal.aborted) Deno.exit(EXIT.interrupted);
    interrupted ||= !terminal.isInteractive || !talk.mayStop;
    if (!talk.mayStop) return leave();
    terminal.printError("stopping; Ctrl-C again leaves");
    void attempt(() => talk.stop());
  };
  const terminal = openTerminal({
    onInterrupt: interrupt,
    onLine: (line) => void attempt(() => perform(line)),
  });
  const isCommand = (line: string) => line.startsWith("/") && !line.startsWith("//");
  const command = async (line: string): Promise<boolean> =>
    isCommand(line) && (await commands.run(line)).known;
  const talk = new Talk({
    ...{ hub, terminal, clock: systemClock, signal, command, extra: wish.extra },
    nextId: () => crypto.randomUUID(),
  }, { sessionId: null, agent: wish.agent });
  const commands = new Commands({ hub, terminal, talk, leave });

  const perform = async (line: string): Promise<number> => {
    if (isCommand(line)) {
      const { known, code } = await commands.run(line);
      if (known) return code ?? EXIT.ok;
      terminal.printError(`There is no command ${line.trim()}; /help lists them`);
      return EXIT.usage;
    }
    const text = line.startsWith("//") ? line.slice(1) : line;
    if (text.trim() === "") return EXIT.ok;
    return await talk.say(text);
  };
  const attempt = async (work: () => Promise<number | void>): Promise<boolean> => {
    let code: number | void = EXIT.failed;
    try {
      code = await work();
    } catch (error) {
      if (signal.aborted) return false;
      terminal.printError(error instanceof Error ? error.message : String(error));
    }
    if (failed === EXIT.ok) failed = code ?? EXIT.ok;
    return code === undefined || code === EXIT.ok;
  };

  const onReaderGone = async () => {
    if (!talk.mayStop || !await attempt(() => talk.stop())) leave();
  };
  readerGone.addEventListener("abort", onReaderGone);
  Deno.addSignalListener("SIGINT", interrupt);
  Deno.addSignalListener("SIGTERM", leave);
  try {
    const prepare = async () => {
      // Whether it is there, and takes the key.
      await askHub(hub, "/v1/agents", { signal });
      if (wish.agent !== null) await commands.run(`/agents ${wish.agent}`);
      if (wish.session !== null) await commands.run(`/resume ${wish.session}`);
      if (wish.agent !== null) talk.useAgent(wish.agent);
    };
    if (!await attempt(() => talk.begin(prepare))) return EXIT.failed;
    if (terminal.isInteractive) {
      terminal.printError(
        `You talk with ${hub.name}; /help lists commands`,
      );
    }
    while (!signal.aborted && !readerGone.aborted && !(interrupted && !terminal.isInteractive)) {
      const line = await terminal.next("> ", signal).catch(() => null);
      if (line === null) break;
      await attempt(() => perform(line));
    }
    if (talk.sessionId !== null) terminal.printError(`session ${talk.sessionId}`);
    if (readerGone.aborted) return EXIT.readerGone;
    if (interrupted) return EXIT.interrupted;
    return terminal.isInteractive ? EXIT.ok : failed;
  } finally {
    leave();
    readerGone.removeEventListener("abort", onReaderGone);
    Deno.removeSignalListener("SIGINT", interrupt);
    Deno.removeSignalListener("SIGTERM", leave);
    terminal.close();
  }
}
