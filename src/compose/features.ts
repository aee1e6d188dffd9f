import { setFeatures } from "../entry/features.ts";
import { auditFeature } from "../features/audit/feature.ts";
import { clientsFeature } from "../features/clients/feature.ts";
import { collectionFeature } from "../features/collection/feature.ts";
import { consentsFeature } from "../features/consents/feature.ts";
import { doctorFeature } from "../features/doctor/feature.ts";
import { driftFeature } from "../features/drift/feature.ts";
import type { Feature } from "../features/feature.ts";
import { importFeature } from "../features/import/feature.ts";
import { legacySseFeature } from "../features/legacy-sse/feature.ts";
import { metricsFeature } from "../features/metrics/feature.ts";
import { nativeFeature } from "../features/native/feature.ts";
import { profilesFeature } from "../features/profiles/feature.ts";
import { retainedCallsFeature } from "../features/retained-calls/feature.ts";
import { secretsFeature } from "../features/secrets/feature.ts";
import { stateFeature } from "../features/state/feature.ts";
import { tenantFilesFeature } from "../features/tenant-files/feature.ts";

/** All features, in the order of their entries in the navigation of pages. */
export const features: readonly Feature[] = [
  clientsFeature,
  collectionFeature,
  consentsFeature,
  doctorFeature,
  driftFeature,
  importFeature,
  legacySseFeature,
  metricsFeature,
  nativeFeature,
  profilesFeature,
  retainedCallsFeature,
  secretsFeature,
  stateFeature,
  tenantFilesFeature,
  auditFeature,
];

setFeatures(features);
