import type { FeatureRoutes } from "../../http/feature-routes.ts";
import { stateRoutes } from "./api.ts";
import type { StateEdits } from "./edits.ts";
import { statePages } from "./pages.ts";

export function stateFeatureRoutes(edits: StateEdits): FeatureRoutes {
  return {
    api: [{ path: "/state", create: ({ bodies }) => stateRoutes(edits, bodies) }],
    pages: statePages(edits),
    sections: [
      {
        section: "state",
        label: "State",
        href: "/state",
        isShown: (principal) => !principal || principal.permits("edit"),
      },
    ],
  };
}
