import { runCommand } from '../../cli/local/processes.ts';

/** Keeps all threads of a process, present and future, on one CPU. */
export async function pinToCpu(pid: number, cpu: number): Promise<void> {
  await runCommand('taskset', ['--all-tasks', '--cpu-list', '--pid', String(cpu), String(pid)]);
}
