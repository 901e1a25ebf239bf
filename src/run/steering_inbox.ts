import { toHubError } from "../core/error.ts";
import type { Log } from "../core/log.ts";
import type { SteeringText } from "../core/steering.ts";
import type { Steering } from "../inference/agent_run.ts";

/** What an inbox needs. */
export interface SteeringInboxOptions {
  /** Reads what nobody has decided, in order, and how many texts were said in all. */
  read(): Promise<{ steered: number; texts: SteeringText[] }>;
  /** How many texts were said, as far as is known. */
  steered: number;
  log: Log;
}

/**
 * What was said to a run that is driven here. How much that is comes with every write of the run and with hints of other
 * replicas; the texts are read only when there is something new, and taken once.
 */
export class SteeringInbox implements Steering {
  readonly #options: SteeringInboxOptions;
  readonly #taken = new Set<string>();
  #texts: SteeringText[] = [];
  #told: number;
  #known = 0;

  constructor(options: SteeringInboxOptions) {
    this.#options = options;
    this.#told = options.steered;
  }

  /** How many texts have been looked at: what the end of the run may be written past. */
  get known(): number {
    return this.#known;
  }

  get isBehind(): boolean {
    return this.#told > this.#known;
  }

  /** So many texts were said in all, at least. */
  tell(steered: number): void {
    this.#told = Math.max(this.#told, steered);
  }

  async waits(): Promise<boolean> {
    await this.#catchUp();
    return this.#texts.length > 0;
  }

  async takeNext({ queued }: { queued: boolean }): Promise<SteeringText[]> {
    await this.#catchUp();
    const steers = this.#texts.filter(({ kind }) => kind === "steer");
    return this.#take(steers.length === 0 && queued ? this.#texts.slice(0, 1) : steers);
  }

  async takeAll(): Promise<SteeringText[]> {
    await this.#catchUp();
    return this.#take([...this.#texts]);
  }

  #take(texts: SteeringText[]): SteeringText[] {
    for (const { steeringId } of texts) this.#taken.add(steeringId);
    this.#texts = this.#texts.filter(({ steeringId }) => !this.#taken.has(steeringId));
    return texts;
  }

  /** What cannot be read now is read at the next look: until then the run does not end. */
  async #catchUp(): Promise<void> {
    if (!this.isBehind) return;
    const { read, log } = this.#options;
    try {
      const { steered, texts } = await read();
      this.#known = Math.max(this.#known, steered);
      this.tell(steered);
      this.#texts = texts.filter(({ steeringId }) => !this.#taken.has(steeringId));
    } catch (error) {
      log.warn("What was said to a run was not read", { error: toHubError(error) });
    }
  }
}
