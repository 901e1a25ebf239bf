/** The tenant of a hub that serves one. A `uuid`, as in every table. */
export const DEFAULT_TENANT_ID = "00000000-0000-7000-8000-000000000001";
