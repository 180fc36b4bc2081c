#!/usr/bin/env node
/** The one place where the command line runs as the process. */
// First, because the modules below need a newer Node than the check.
import "./cli/start/requireNode.ts"
import "./cli/start/StartSettings.ts"
import "effect/schema/SchemaJITCompiler/enable"
import * as CliError from "effect/cli/CliError"
import * as Effect from "effect/Effect"
import { program } from "./cli/program.ts"
import { Platform, runProgram } from "./node/process/runProgram.ts"

// An invalid call was reported already.
runProgram(Effect.provide(program, Platform), { isReported: CliError.isCliError })
