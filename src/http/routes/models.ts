import { type Static, Type } from "@sinclair/typebox";
import { agentOfModel, modelOfAgent } from "../../config/model_name.ts";
import { toHubError } from "../../core/error.ts";
import { allows, type KeyPolicy } from "../../policy/key_policy.ts";
import { type ListedModel, modelNotFound, type ResolveModel } from "../../router/resolve.ts";
import { listBody, listSchema } from "../list_body.ts";
import { jsonReply } from "../reply.ts";
import { defineRoute, type Route } from "../route.ts";

const Model = Type.Object({
  id: Type.String(),
  object: Type.Literal("model"),
  created: Type.Integer({ description: "Seconds since the epoch" }),
  owned_by: Type.String(),
});
type Model = Static<typeof Model>;

/** What the model routes need. `createdAt` is when this configuration was loaded, in milliseconds since the epoch. */
export interface ModelsOptions {
  models: () => readonly ListedModel[];
  /** Agents that count now, by name. */
  agents(): Readonly<Record<string, unknown>>;
  resolve: ResolveModel;
  policyOf(keyId: string): KeyPolicy;
  createdAt: number;
}

/** `/v1/models` and `/v1/models/:id`; ids with slashes come encoded or not. A key sees what it may call. */
export function modelRoutes(options: ModelsOptions): Route[] {
  const created = Math.floor(options.createdAt / 1000);
  const toWire = (id: string, ownedBy: string): Model => ({
    id,
    object: "model",
    created,
    owned_by: ownedBy,
  });
  const { models, agents, resolve, policyOf } = options;
  const showAgent = (name: string) => toWire(modelOfAgent(name), "loophub");
  return [
    defineRoute({
      method: "GET",
      path: "/v1/models",
      auth: "user",
      tag: "models",
      summary: "Models that the key may call and agents that it may run, by their public names",
      responses: {
        200: {
          description: "The models",
          schema: listSchema(Model),
        },
      },
      handle({ principal: { keyId } }) {
        const policy = policyOf(keyId);
        const callable = models().filter(({ id }) => allows(policy.models, id));
        const runnable = Object.keys(agents()).filter((name) => allows(policy.agents, name));
        return jsonReply(listBody([
          ...callable.map(({ id, ownedBy }) => toWire(id, ownedBy)),
          ...runnable.sort().map(showAgent),
        ]));
      },
    }),
    defineRoute({
      method: "GET",
      path: "/v1/models/:id{.+}",
      auth: "user",
      tag: "models",
      summary: "One model",
      params: Type.Object({ id: Type.String({ minLength: 1, maxLength: 300 }) }),
      responses: {
        200: { description: "The model", schema: Model },
        404: { description: "There is no such model, or none for this key" },
      },
      handle({ params: { id }, principal: { keyId } }) {
        const { models: names, agents: askable } = policyOf(keyId);
        const agent = agentOfModel(id);
        if (agent !== null) {
          if (allows(askable, agent) && Object.hasOwn(agents(), agent)) {
            return jsonReply(showAgent(agent));
          }
          throw modelNotFound(id);
        }
        if (!allows(names, id)) throw modelNotFound(id);
        const listed = models().find((model) => model.id === id);
        const [target] = names === undefined ? resolve(id) : resolveUnhinted(resolve, id);
        return jsonReply(toWire(id, listed?.ownedBy ?? target?.provider ?? "loophub"));
      },
    }),
  ];
}

/** As `resolve`, without a word about names that the key may not know. */
function resolveUnhinted(resolve: ResolveModel, id: string): ReturnType<ResolveModel> {
  try {
    return resolve(id);
  } catch (error) {
    throw toHubError(error).code === "model_not_found" ? modelNotFound(id) : error;
  }
}
