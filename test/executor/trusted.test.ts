import { executorContract } from "../support/executor.contract.ts";
import { hostileContract } from "../support/executor.hostile.ts";
import { scriptsContract } from "../support/executor.scripts.ts";

executorContract("trusted");
hostileContract("trusted");
scriptsContract("trusted");
