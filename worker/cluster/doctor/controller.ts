import { z } from 'zod';
import type { ClusterConfig } from '../../config.ts';
import { timeoutMs } from '../../core/policy.ts';
import type { Ask } from './ask.ts';
import { type DoctorRow, fail, ok, unknown, warn } from './row.ts';

/*
 * What kube-controller-manager was told. No API says it, and its metrics port is nowhere near the edge; but in mode
 * compat the account may list pods, and where the controller manager is a static pod its flags stand there.
 */

const SELECTOR = 'component%3Dkube-controller-manager';
const LOOK_AT_FLAGS =
  "kubectl -n kube-system get pods -l component=kube-controller-manager -o jsonpath='{..command}', or on its host: ps -o args= -C kube-controller-manager; more in docs/guides/doctor.md";

/** The default since Kubernetes 1.32; it was 40 s before. */
const DEFAULT_GRACE_MS = 50_000;
const SOURCE_FLAG = 'node-liveness-source';
const GRACE_FLAG = 'node-monitor-grace-period';

const Texts = z.array(z.string()).nullish();
const PodList = z.object({
  items: z
    .array(z.object({ spec: z.object({ containers: z.array(z.object({ command: Texts, args: Texts })) }) }))
    .nullable(),
});

/** The command lines of the controller managers that can be seen. */
async function commandLines({ mode }: ClusterConfig, ask: Ask): Promise<readonly (readonly string[])[]> {
  if (mode !== 'compat') return [];
  const asked = await ask({ path: `/api/v1/namespaces/kube-system/pods?labelSelector=${SELECTOR}&limit=10` });
  const list = asked.ok ? PodList.safeParse(asked.body).data : undefined;
  return (list?.items ?? []).map(({ spec }) =>
    spec.containers.flatMap(({ command, args }) => [...(command ?? []), ...(args ?? [])]),
  );
}

/** The mode against the controller's source of liveness, and its patience against ours. */
export async function examineController(config: ClusterConfig, ask: Ask): Promise<readonly DoctorRow[]> {
  const seen = await commandLines(config, ask);
  return [modeRow(config, seen), graceRow(config, seen)];
}

function modeRow({ mode }: ClusterConfig, seen: readonly (readonly string[])[]): DoctorRow {
  const check = 'mode';
  if (mode === 'observe') return ok(check, 'observe: nothing is written, whatever the controller does');
  const wanted = mode === 'external' ? 'external' : 'kubelet';
  const sources = new Set(seen.map((line) => flagOf(line, SOURCE_FLAG) ?? 'kubelet'));
  if (sources.size === 0) {
    return unknown(
      check,
      `${mode} wants --${SOURCE_FLAG}=${wanted}; the controller's flags cannot be seen from here`,
      LOOK_AT_FLAGS,
    );
  }
  if (sources.size === 1 && sources.has(wanted))
    return ok(check, `${mode}, and --${SOURCE_FLAG} is ${wanted}`);
  return fail(
    check,
    `${mode} wants --${SOURCE_FLAG}=${wanted} on every controller manager; found ${[...sources].join(' and ')}`,
    'change the flag first, then the mode',
  );
}

function graceRow({ policy, mode }: ClusterConfig, seen: readonly (readonly string[])[]): DoctorRow {
  const check = 'grace';
  const oursMs = timeoutMs(policy, policy.intervalMs);
  const ours = `farpulse's deadline is ${oursMs / 1000} s`;
  if (mode === 'external') return ok(check, `${ours}; in mode external the controller has none`);
  const graces = seen.map((line) => durationMsOf(flagOf(line, GRACE_FLAG)) ?? DEFAULT_GRACE_MS);
  if (graces.length === 0) {
    return unknown(check, `${ours}; the controller's grace cannot be seen from here`, LOOK_AT_FLAGS);
  }
  const leastMs = Math.min(...graces);
  const found = `${ours}, the controller's grace ${leastMs / 1000} s`;
  // With the doubt of a few nodes more missing ours takes up to twice as long; it should come first even then.
  return leastMs >= 2 * oursMs
    ? ok(check, found)
    : warn(
        check,
        `${found}: it may come first`,
        `set --${GRACE_FLAG} to at least ${Math.ceil((2 * oursMs) / 1000)} s; it stays as a long backstop`,
      );
}

function flagOf(line: readonly string[], name: string): string | undefined {
  const prefix = `--${name}=`;
  const found = line.findLast((word) => word.startsWith(prefix));
  if (found !== undefined) return found.slice(prefix.length);
  const at = line.lastIndexOf(`--${name}`);
  return at < 0 ? undefined : line[at + 1];
}

const UNITS_MS = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 } as const;

/** A duration as Go writes it: `10m0s`, `40s`. */
export function durationMsOf(text: string | undefined): number | undefined {
  if (text === undefined || !/^(?:\d+(?:\.\d+)?(?:ms|h|m|s))+$/.test(text)) return undefined;
  return [...text.matchAll(/(\d+(?:\.\d+)?)(ms|h|m|s)/g)].reduce(
    // SAFETY: the pattern knows no other units.
    (sum, [, count, unit]) => sum + Number(count) * UNITS_MS[unit as keyof typeof UNITS_MS],
    0,
  );
}
