import { executorContract } from "./executor.contract.ts";
import { hostileContract } from "./executor.hostile.ts";

executorContract("trusted");
hostileContract("trusted");
