import type { Router } from "express";
import type { Bodies } from "./body.ts";
import type { Pages, Section } from "./pages/pages.ts";
import type { PageRoute } from "./routed.ts";

/** The contributions of a feature to the API and the pages. */
export interface FeatureRoutes {
  readonly api?: readonly FeatureApi[];
  readonly pages?: readonly PageRoute<PageKit>[];
  /** Its entries in the main navigation, after those of the core that are for everyone. */
  readonly sections?: readonly Section[];
}

interface FeatureApi {
  /** The path below `/api`. */
  readonly path: string;
  readonly create: (kit: { readonly bodies: Bodies }) => Router;
}

export interface PageKit {
  readonly pages: Pages;
  /** False on a read-only instance. */
  readonly writable: boolean;
}
