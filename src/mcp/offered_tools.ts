import { canonicalJson } from "../core/json.ts";
import type { Log } from "../core/log.ts";
import { type Catalogue, holdBack, pinAll, type Pins, renewPins } from "./catalogue.ts";
import type { McpTool, ToolListing } from "./read_tools.ts";

/** A definition that waits for somebody to approve it. */
export interface WaitingTool {
  name: string;
  /** Of all that the server says of it; whoever approves names it. */
  hash: string;
  /** Null for a new tool. */
  approvedHash: string | null;
  tool: McpTool;
  /** The one that counted, where this process has seen it. */
  before: McpTool | null;
}

/** The tools of one server that count: of one that is not trusted only those that are as they were first seen or approved. */
export class OfferedTools {
  readonly #trust: boolean;
  #listed: ToolListing | null = null;
  #offered: ToolListing | null = null;
  #pins: Pins | null = null;
  /** Definitions that have counted here, by name. */
  readonly #counted = new Map<string, McpTool>();

  constructor(trust: boolean, seed: Catalogue | undefined) {
    this.#trust = trust;
    if (seed === undefined) return;
    this.#pins = seed.pins;
    // What it has beside tools is read behind them: a server without tools is known by that.
    const isKnown = seed.content !== null && (trust || seed.pins !== null);
    if (seed.tools.length > 0 || isKnown) this.take({ tools: [...seed.tools], dropped: [] });
  }

  /** Null before the first list. */
  get listing(): ToolListing | null {
    return this.#offered;
  }

  /** Another list has come; gives what of it counts. */
  take(listed: ToolListing): ToolListing {
    this.#listed = listed;
    if (this.#trust) this.#offered = listed;
    else {
      this.#pins = this.#pins === null ? pinAll(listed.tools) : this.#renewed(this.#pins);
      this.#offered = holdBack(listed, this.#pins);
    }
    for (const tool of this.#offered.tools) this.#counted.set(tool.name, tool);
    return this.#offered;
  }

  /** Definitions that are listed and do not count, since nobody has approved them. */
  get waiting(): WaitingTool[] {
    const listed = this.#trust ? [] : this.#listed?.tools ?? [];
    const now = pinAll(listed);
    const known = new Map(Object.entries(this.#pins ?? {}));
    return listed.filter(({ name }) => known.get(name) !== now[name]).map((tool) => ({
      name: tool.name,
      hash: now[tool.name] ?? "",
      approvedHash: known.get(tool.name) ?? null,
      tool,
      before: this.#counted.get(tool.name) ?? null,
    }));
  }

  /** Lets these definitions count, beside those that do; false when that changes nothing. */
  usePins(pins: Pins): boolean {
    const entries = Object.entries(this.#renewed(pins));
    if (this.#trust || entries.length === 0) return false;
    const known = new Map(Object.entries(this.#pins ?? {}));
    if (this.#pins !== null && entries.every(([name, hash]) => known.get(name) === hash)) {
      return false;
    }
    const joined: Record<string, string> = Object.create(null);
    for (const [name, hash] of [...known, ...entries]) joined[name] = hash;
    this.#pins = joined;
    if (this.#listed !== null) this.take(this.#listed);
    return true;
  }

  /** Lets these definitions count and no others; false when that changes nothing. */
  setPins(stored: Pins): boolean {
    const pins = this.#renewed(stored);
    if (this.#trust || canonicalJson(pins) === canonicalJson(this.#pins)) return false;
    this.#pins = pins;
    if (this.#listed !== null) this.take(this.#listed);
    return true;
  }

  /** Pins as this release makes them; see `renewPins`. */
  #renewed(pins: Pins): Pins {
    return renewPins(pins, this.#listed?.tools ?? []);
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
