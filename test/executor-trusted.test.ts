import { executorContract } from "./executor.contract.ts";
import { hostileContract } from "./executor.hostile.ts";
import { scriptsContract } from "./executor.scripts.ts";

executorContract("trusted");
hostileContract("trusted");
scriptsContract("trusted");
