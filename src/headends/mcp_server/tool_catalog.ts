import type { Clock, Timer } from "../../core/clock.ts";
import { createWireNames } from "../../operations/wire_names.ts";
import type { KeyPolicy } from "../../policy/key_policy.ts";
import type { ServedTool, ToolSource } from "./served_tool.ts";

/** A tool and the name that clients know it by. */
export interface ListedTool {
  name: string;
  tool: ServedTool;
}

/** What may be another now. */
export interface CatalogNews {
  tools: boolean;
  /** Resources or prompts of connected servers. */
  content: boolean;
  /** For whom alone; null for everybody. */
  keyIds: ReadonlySet<string> | null;
}

/** Whether a key may have other lists now. */
export function concerns({ keyIds }: CatalogNews, keyId: string): boolean {
  return keyIds === null || keyIds.has(keyId);
}

/** News that come within this time are told once. */
const DEBOUNCE_MS = 250;

/** All that is served over MCP, by wire names that do not depend on who asks or in which order sources came. */
export class ToolCatalog {
  readonly #sources: readonly ToolSource[];
  readonly #clock: Clock;
  readonly #listeners = new Set<(news: CatalogNews) => void>();
  #tools: ReadonlyMap<string, ServedTool> | null = null;
  #timer: Timer | null = null;
  #isContentNew = false;
  #keyIds = new Set<string>();
  /** What clients could know. */
  #told: string;

  constructor(sources: readonly ToolSource[], clock: Clock) {
    this.#sources = sources;
    this.#clock = clock;
    this.#told = this.#print();
  }

  /** How many listen. */
  get listeners(): number {
    return this.#listeners.size;
  }

  /** What a key of this policy may use, by name. */
  listFor(policy: KeyPolicy): ListedTool[] {
    return [...this.#all()].filter(([, tool]) => tool.isFor(policy))
      .map(([name, tool]) => ({ name, tool }));
  }

  /** The tool of this name; null when there is none, or the key may not use it. */
  find(name: string, policy: KeyPolicy): ServedTool | null {
    const tool = this.#all().get(name);
    return tool?.isFor(policy) === true ? tool : null;
  }

  /** A source has other tools now. Listeners hear of many changes once. */
  changed(): void {
    this.#tools = null;
    this.#timer ??= this.#clock.setTimer(this.#tell, DEBOUNCE_MS);
  }

  /** Connected servers have other resources or prompts now. */
  contentChanged(): void {
    this.#isContentNew = true;
    this.#timer ??= this.#clock.setTimer(this.#tell, DEBOUNCE_MS);
  }

  /** What single keys may use is another now, as far as is known. */
  changedFor(keyIds: readonly string[]): void {
    if (keyIds.length === 0) return;
    for (const keyId of keyIds) this.#keyIds.add(keyId);
    this.#timer ??= this.#clock.setTimer(this.#tell, DEBOUNCE_MS);
  }

  /** Called after changes; gives what ends that. */
  onChange(listener: (news: CatalogNews) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** No listener is called any more. */
  close(): void {
    if (this.#timer !== null) this.#clock.clearTimer(this.#timer);
    this.#timer = null;
    this.#listeners.clear();
  }

  readonly #tell = () => {
    this.#timer = null;
    const before = this.#told;
    this.#told = this.#print();
    const tools = this.#told !== before;
    const content = this.#isContentNew;
    const keyIds = this.#keyIds;
    this.#isContentNew = false;
    this.#keyIds = new Set();
    if (tools || content) this.#pass({ tools, content, keyIds: null });
    if (keyIds.size > 0) this.#pass({ tools: true, content: true, keyIds });
  };

  #pass(news: CatalogNews): void {
    for (const listener of [...this.#listeners]) listener(news);
  }

  #print(): string {
    return JSON.stringify([...this.#all()]);
  }

  /** By wire name, in its order; of tools that share a full name the first source's. */
  #all(): ReadonlyMap<string, ServedTool> {
    if (this.#tools !== null) return this.#tools;
    const byFull = new Map<string, ServedTool>();
    for (const tool of this.#sources.flatMap((source) => source.list())) {
      if (!byFull.has(tool.name)) byFull.set(tool.name, tool);
    }
    const { toWire } = createWireNames(byFull.keys());
    const named = [...byFull.values()].map((tool) => [toWire(tool.name), tool] as const);
    this.#tools = new Map(named.sort(([a], [b]) => a < b ? -1 : 1));
    return this.#tools;
  }
}
