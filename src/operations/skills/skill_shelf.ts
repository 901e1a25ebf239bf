import { Buffer } from "node:buffer";
import type { Clock } from "../../core/clock.ts";
import type { Log } from "../../core/log.ts";
import { nextTurn } from "../../core/next_turn.ts";
import { type ReadSkill, readSkill, type SkillHead } from "./read_skill.ts";
import { type FoundSkill, MAX_FOUND, SKILL_FILE, type SkillFolder } from "./skill_folder.ts";

/** Who has written a skill: the operator, or whoever writes in the agent's workspace. */
export type SkillTier = "managed" | "workspace";

/** A skill that can be loaded. */
export interface Skill extends SkillHead {
  tier: SkillTier;
  /** Its folder, below that of its tier. */
  folder: string;
  body: string;
  home: SkillFolder;
}

/** A folder that is no skill, and why. */
export interface BadSkill {
  tier: SkillTier;
  /** Its folder, below that of its tier; null where it is the tier that is bad. */
  folder: string | null;
  /** As operators know it. */
  path: string;
  problem: string;
}

/** What is in the folders of some tiers. */
export interface Shelved {
  /** Sorted by name; of two of one name that of the workspace. */
  skills: readonly Skill[];
  bad: readonly BadSkill[];
}

/** A tier and where it is. */
export interface Tier {
  tier: SkillTier;
  home: SkillFolder;
}

/** Skills of one tier. */
export const MAX_SKILLS = 100;
/** How long what was found holds. */
const FRESH_MS = 2000;
const FIND_MS = 10_000;
/** Of both tiers, with some that are gone. */
const MAX_KEPT = 3 * MAX_FOUND;

/** What is in folders of skills, looked at again when somebody asks and what is known is not fresh. */
export class SkillShelf {
  readonly #tiers: readonly Tier[];
  readonly #clock: Clock;
  readonly #log: Log;
  #known: { at: number; isOver: boolean; shelved: Promise<Shelved> } | null = null;
  #told = "";
  /** By tier and folder: what has not changed is not read again. */
  readonly #read = new Map<string, { bytes: Uint8Array; read: ReadSkill }>();

  constructor(tiers: readonly Tier[], { clock, log }: { clock: Clock; log: Log }) {
    this.#tiers = tiers;
    this.#clock = clock;
    this.#log = log;
  }

  /** What there is. Never rejects: a folder that cannot be read is a bad one. */
  read(): Promise<Shelved> {
    const now = this.#clock.monotonic();
    const before = this.#known;
    if (before !== null && (!before.isOver || now - before.at < FRESH_MS)) return before.shelved;
    const known = { at: now, isOver: false, shelved: this.#look() };
    this.#known = known;
    void known.shelved.finally(() => known.isOver = true);
    return known.shelved;
  }

  async #look(): Promise<Shelved> {
    const found = await Promise.all(this.#tiers.map((tier) => this.#lookAt(tier)));
    const byName = new Map<string, Skill>();
    for (const { skills } of found) for (const skill of skills) byName.set(skill.name, skill);
    const shelved = {
      skills: [...byName.values()].sort((a, b) => a.name < b.name ? -1 : 1),
      bad: found.flatMap(({ bad }) => bad),
    };
    const told = JSON.stringify(shelved.bad);
    if (told !== this.#told) {
      for (const { tier, path, problem } of shelved.bad) {
        this.#log.warn("A skill cannot be used", { tier, path, problem });
      }
    }
    this.#told = told;
    return shelved;
  }

  #readOne(key: string, bytes: Uint8Array): ReadSkill {
    const before = this.#read.get(key);
    if (before !== undefined && Buffer.compare(before.bytes, bytes) === 0) return before.read;
    const read = readSkill(bytes);
    if (this.#read.size >= MAX_KEPT) this.#read.clear();
    this.#read.set(key, { bytes, read });
    return read;
  }

  async #lookAt({ tier, home }: Tier): Promise<Shelved> {
    const stop = new AbortController();
    const timer = this.#clock.setTimer(() => stop.abort(), FIND_MS);
    try {
      const found = await home.find(stop.signal);
      const { skills, bad } = await readFound(found, {
        tier,
        shown: home.shown,
        signal: stop.signal,
        read: (folder, bytes) => this.#readOne(`${tier}/${folder}`, bytes),
      });
      return { skills: skills.map((skill) => ({ ...skill, home })), bad };
    } catch (error) {
      const problem = error instanceof Error ? error.message : "it cannot be read";
      return { skills: [], bad: [{ tier, folder: null, path: home.shown, problem }] };
    } finally {
      this.#clock.clearTimer(timer);
    }
  }
}

/**
 * Reads what was found in the folder of a tier, which people know as `shown`, until the signal aborts. Others have their turn
 * between two skills: the head of one can take a tenth of a second.
 */
export async function readFound(
  found: readonly FoundSkill[],
  { tier, shown, signal, read: readOne = (_, bytes) => readSkill(bytes) }: {
    tier: SkillTier;
    shown: string;
    signal?: AbortSignal;
    read?: (folder: string, bytes: Uint8Array) => ReadSkill;
  },
): Promise<{ skills: Omit<Skill, "home">[]; bad: BadSkill[] }> {
  const skills: Omit<Skill, "home">[] = [];
  const bad: BadSkill[] = [];
  const refuse = (folder: string, problem: string) =>
    bad.push({ tier, folder, path: `${shown}/${folder}`, problem });
  for (const { folder, bytes } of found) {
    if (bytes === null) {
      refuse(folder, `it has no ${SKILL_FILE} that can be read`);
      continue;
    }
    await nextTurn();
    if (signal?.aborted) {
      refuse(folder, "there was no time left to read it");
      continue;
    }
    const read = readOne(folder, bytes);
    if (!read.ok) refuse(folder, read.problem);
    else if (skills.some(({ name }) => name === read.head.name)) {
      refuse(folder, `another one beside it is named ${read.head.name} too`);
    } else if (skills.length >= MAX_SKILLS) {
      refuse(folder, `there are more than the ${MAX_SKILLS} skills that one place may have`);
    } else skills.push({ ...read.head, tier, folder, body: read.body });
  }
  if (found.length >= MAX_FOUND) {
    const problem = `only the first ${MAX_FOUND} folders are looked at`;
    bad.push({ tier, folder: null, path: shown, problem });
  }
  return { skills, bad };
}
