/**
 * One line of what the doctor found. `check` is stable: machines go by it. What is not `ok` says what to do about it;
 * `unknown` could not be looked at from here, which is no fault.
 */
export type DoctorRow =
  | { readonly check: string; readonly state: 'ok'; readonly found: string }
  | {
      readonly check: string;
      readonly state: 'warn' | 'fail' | 'unknown';
      readonly found: string;
      readonly todo: string;
    };

export function ok(check: string, found: string): DoctorRow {
  return { check, state: 'ok', found };
}

export function warn(check: string, found: string, todo: string): DoctorRow {
  return { check, state: 'warn', found, todo };
}

export function fail(check: string, found: string, todo: string): DoctorRow {
  return { check, state: 'fail', found, todo };
}

export function unknown(check: string, found: string, todo: string): DoctorRow {
  return { check, state: 'unknown', found, todo };
}
