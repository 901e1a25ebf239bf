import type { Log } from "../core/log.ts";
import { type Catalogue, holdBack, pinAll, type Pins } from "./catalogue.ts";
import type { ToolListing } from "./read_tools.ts";

/** The tools of one server that count: of one that is not trusted only those that are as they were first seen or approved. */
export class OfferedTools {
  readonly #trust: boolean;
  #listed: ToolListing | null = null;
  #offered: ToolListing | null = null;
  #pins: Pins | null = null;

  constructor(trust: boolean, seed: Catalogue | undefined) {
    this.#trust = trust;
    if (seed === undefined) return;
    this.#pins = seed.pins;
    if (seed.tools.length > 0) this.take({ tools: [...seed.tools], dropped: [] });
  }

  /** Null before the first list. */
  get listing(): ToolListing | null {
    return this.#offered;
  }

  /** Another list has come; gives what of it counts. */
  take(listed: ToolListing): ToolListing {
    this.#listed = listed;
    if (this.#trust) this.#offered = listed;
    else this.#offered = holdBack(listed, this.#pins ??= pinAll(listed.tools));
    return this.#offered;
  }

  /** Lets all count that the server lists now; false before the first list. */
  approve(): boolean {
    if (this.#listed === null) return false;
    if (!this.#trust) this.#pins = pinAll(this.#listed.tools);
    this.take(this.#listed);
    return true;
  }

  /** There is no list any more; what counts when it comes again stays as it is. */
  forget(): void {
    this.#listed = null;
    this.#offered = null;
  }

  /** What is to be kept of it. */
  toCatalogue(): Pick<Catalogue, "tools" | "pins"> {
    return { tools: this.#listed?.tools ?? [], pins: this.#trust ? null : this.#pins };
  }

  /** Throws for a tool that does not count any more. */
  assertOffered(name: string): void {
    if (this.#offered === null || this.#offered.tools.some((tool) => tool.name === name)) return;
    const why = this.#offered.dropped.find((tool) => tool.name === name)?.reason;
    const reason = why === undefined ? "" : `: ${why}`;
    throw new Error(`The tool ${name} is not offered any more${reason}`);
  }
}

/** Says in the log which tools cannot be used. */
export function tellDropped(
  dropped: ToolListing["dropped"],
  { server, log }: { server: string; log: Log },
): void {
  for (const { name: tool, reason } of dropped) {
    log.warn("A tool of an MCP server cannot be used", { server, tool, reason });
  }
}
