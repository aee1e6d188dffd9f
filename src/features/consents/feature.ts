import type { Feature } from "../feature.ts";

/** The user's consent to calls of tools that an entry names in `consent` (docs/consent.md). */
export const consentsFeature: Feature = {
  name: "consents",
  async open({ store, sealer, audit, servedRelease }) {
    const { Consents } = await import("./consents.ts");
    return { consents: new Consents({ sealer, records: store, audit, servedRelease }) };
  },
};
