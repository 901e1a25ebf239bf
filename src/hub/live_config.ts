import type { LoadedConfig, ResolvedConfig } from "../config/load.ts";
import { freezeConfig } from "../config/freeze.ts";
import type { Log } from "../core/log.ts";
import { createTargets, type TargetOptions } from "../providers/create_targets.ts";
import type { SendUpstream } from "../providers/transport.ts";
import { type ChooseProvider, createChooseProvider } from "../router/choose_provider.ts";
import type { KeptProvider } from "../router/provider_snapshot.ts";
import {
  createResolver,
  type ListedModel,
  listModels,
  type ResolveModel,
} from "../router/resolve.ts";

/** What counts at one moment; a request keeps the targets that it has found here. */
interface Current {
  config: ResolvedConfig;
  resolve: ResolveModel;
  chooseProvider: ChooseProvider;
  models: readonly ListedModel[];
}

/** What making a configuration count needs. */
export interface LiveConfigOptions {
  config: ResolvedConfig;
  /** The database's providers of this moment, by name. */
  stored: () => ReadonlyMap<string, KeptProvider>;
  targets: Omit<TargetOptions, "rotations" | "foreign">;
  /** Sends for the database's providers. */
  guarded: SendUpstream;
  log: Log;
  /** Called with each configuration before requests can find it. */
  onUse(config: ResolvedConfig): void;
}

/** What takes effect without a restart. */
const RELOADED = [
  "providers",
  "models",
  "defaultModel",
  "agents",
  "workspace",
  "mcpServers",
  "timeouts",
] as const;

/**
 * The configuration that counts now: that of the file with the database's providers in it, which win. It is made anew as
 * a whole when either changes, and then exchanged at once.
 */
export class LiveConfig {
  readonly #options: LiveConfigOptions;
  #file: ResolvedConfig;
  #current: Current;
  #shadowed = "";
  #listeners: (() => void)[] = [];

  constructor(options: LiveConfigOptions) {
    this.#options = options;
    this.#file = options.config;
    this.#current = this.#make(this.#file);
  }

  get config(): ResolvedConfig {
    return this.#current.config;
  }

  /** The file's own, without the database's providers. */
  get file(): ResolvedConfig {
    return this.#file;
  }

  get models(): readonly ListedModel[] {
    return this.#current.models;
  }

  /** By what counts when it is called. */
  readonly resolve: ResolveModel = (name) => this.#current.resolve(name);

  readonly chooseProvider: ChooseProvider = (...args) => this.#current.chooseProvider(...args);

  /** Called from now on after each exchange. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** Takes over what the database has now. */
  refresh(): void {
    this.#use(this.#file);
  }

  /** Takes over a file that was loaded again; what cannot change while the hub runs stays, and the log says so. */
  reload({ config: next, source }: LoadedConfig): void {
    const { log } = this.#options;
    const before = this.#file;
    this.#use(takeOver(before, next));
    const changed = RELOADED.filter((name) => isChanged(name, before, next));
    log.info("The configuration was reloaded", { source, changed });
    tellWaiting(before, next, log);
  }

  #use(file: ResolvedConfig): void {
    this.#current = this.#make(file);
    this.#file = file;
    for (const listener of this.#listeners) listener();
  }

  #make(file: ResolvedConfig): Current {
    const { stored, targets, guarded, onUse } = this.#options;
    const kept = [...stored()];
    const own = Object.fromEntries(kept.map(([name, { provider }]) => [name, provider]));
    const config = freezeConfig({ ...file, providers: { ...file.providers, ...own } });
    const rotations = new Map(
      kept.flatMap(([name, { rotation }]) => rotation === null ? [] : [[name, rotation] as const]),
    );
    const foreign = { providers: new Set(kept.map(([name]) => name)), http: guarded };
    const findTarget = createTargets(config, { ...targets, rotations, foreign });
    const resolve = createResolver(config, findTarget);
    const chooseProvider = createChooseProvider(config, findTarget);
    onUse(config);
    this.#tellShadowed(
      kept.map(([name]) => name).filter((name) => Object.hasOwn(file.providers, name)),
    );
    return { config, resolve, chooseProvider, models: listModels(config) };
  }

  #tellShadowed(providers: string[]): void {
    const text = providers.join();
    if (text !== "" && text !== this.#shadowed) {
      this.#options.log.warn("Providers of the database stand in the place of configured ones", {
        providers,
      });
    }
    this.#shadowed = text;
  }
}

/** A configuration with all of another one that needs no restart. */
export function takeOver(before: ResolvedConfig, next: ResolvedConfig): ResolvedConfig {
  const { workspace: _, ...others } = before;
  const { providers, models, defaultModel, agents, workspace, mcpServers, timeouts } = next;
  return {
    ...others,
    ...{ providers, models, defaultModel, agents, mcpServers, timeouts },
    ...workspace === undefined ? {} : { workspace },
  };
}

/** Says what of another configuration counts from the next start on only. */
export function tellWaiting(before: ResolvedConfig, next: ResolvedConfig, log: Log): void {
  const taken = takeOver(before, next);
  const names = [...new Set([...Object.keys(taken), ...Object.keys(next)])];
  const settings = names.filter((name) => isChanged(name as keyof ResolvedConfig, taken, next));
  if (settings.length === 0) return;
  log.warn("Some changes of the configuration wait for the next start", { settings });
}

function isChanged(
  name: keyof ResolvedConfig,
  before: ResolvedConfig,
  next: ResolvedConfig,
): boolean {
  return JSON.stringify(before[name]) !== JSON.stringify(next[name]);
}
