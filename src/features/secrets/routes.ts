import { mayKnow } from "../../http/access/permit.ts";
import type { FeatureRoutes } from "../../http/feature-routes.ts";
import { secretRoutes } from "./api.ts";
import type { SecretEdits } from "./edits.ts";
import { secretsPage } from "./page.ts";

export function secretFeatureRoutes(edits: SecretEdits): FeatureRoutes {
  return {
    api: [{ path: "/secrets", create: ({ bodies }) => secretRoutes(edits, bodies) }],
    pages: [secretsPage(edits)],
    sections: [{ section: "secrets", label: "Secrets", href: "/secrets", isShown: mayKnow }],
    secrets: edits,
  };
}
