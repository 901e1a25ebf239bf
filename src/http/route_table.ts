import { RegExpRouter } from "hono/router/reg-exp-router";
import { SmartRouter } from "hono/router/smart-router";
import { TrieRouter } from "hono/router/trie-router";
import { decode } from "./request_path.ts";
import type { Route } from "./route.ts";

/** The route that a request goes to. */
export interface RouteMatch {
  route: Route;
  /** Decoded once. */
  params: Readonly<Record<string, string>>;
}

/** Finds routes by method and path. */
export interface RouteTable {
  match(method: string, path: string): RouteMatch | null;
  /** Methods that a path has, for the answer 405; empty when there is no such path. */
  methodsOf(path: string): string[];
}

const NO_PARAMS: Readonly<Record<string, string>> = Object.freeze({});

/**
 * Makes the table. Paths without parameters are looked up whole and win over patterns; patterns go through Hono's
 * router, of several that match the first one wins. Throws when two routes have the same method and path.
 */
export function createRouteTable(routes: readonly Route[]): RouteTable {
  const fixed = new Map<string, RouteMatch>();
  const patterns = new SmartRouter<Route>({ routers: [new RegExpRouter(), new TrieRouter()] });
  const methods = new Set<string>();
  const seen = new Set<string>();
  for (const route of routes) {
    const key = `${route.method} ${route.path}`;
    if (seen.has(key)) throw new Error(`Two routes are defined for ${key}`);
    seen.add(key);
    methods.add(route.method);
    if (route.path.includes(":")) patterns.add(route.method, route.path, route);
    else fixed.set(key, { route, params: NO_PARAMS });
  }

  const match = (method: string, path: string): RouteMatch | null => {
    const whole = fixed.get(`${method} ${path}`);
    if (whole !== undefined) return whole;
    const [found, stash] = patterns.match(method, path);
    const first = found[0];
    if (first === undefined) return null;
    const [route, places] = first;
    const params: Record<string, string> = {};
    for (const [name, place] of Object.entries(places)) {
      const text = typeof place === "number" ? stash?.[place] : place;
      if (text !== undefined) params[name] = decode(text);
    }
    return { route, params };
  };

  return {
    match,
    methodsOf: (path) => [...methods].filter((method) => match(method, path) !== null),
  };
}
