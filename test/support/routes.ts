import { features } from "../../src/compose/features.ts";
import type { FeatureCore } from "../../src/features/feature.ts";
import type { ApiOptions } from "../../src/http/api/add-route.ts";
import { apiRoutes } from "../../src/http/api/api.ts";

const core = { config: {}, store: {}, limits: {}, measured: {}, secrets: {} } as FeatureCore;
const opened = await Promise.all(features.map((feature) => feature.open(core)));
for (const { retention } of opened) await retention?.close();
const added = await Promise.all(opened.map(async ({ routes }) => (await routes?.()) ?? {}));

/** All routes of the API, those of features included, to list but not to call. */
export const allRoutes = apiRoutes({ access: {}, features: added } as unknown as ApiOptions);
