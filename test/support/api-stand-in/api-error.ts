/** A refusal of the API: a `Status` object, as apimachinery's errors package makes it. */
export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly body: unknown;

  constructor(status: number, reason: string, message: string, details?: object) {
    super(message);
    this.status = status;
    this.body = {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message,
      reason,
      ...(details !== undefined && { details }),
      code: status,
    };
  }
}

export function notFound(plural: string, name: string): ApiError {
  return new ApiError(404, 'NotFound', `${plural} "${name}" not found`, { name, kind: plural });
}

export function alreadyExists(plural: string, name: string): ApiError {
  return new ApiError(409, 'AlreadyExists', `${plural} "${name}" already exists`, { name, kind: plural });
}

export function staleVersion(plural: string, name: string): ApiError {
  const why = 'the object has been modified; please apply your changes to the latest version and try again';
  return new ApiError(409, 'Conflict', `Operation cannot be fulfilled on ${plural} "${name}": ${why}`, {
    name,
    kind: plural,
  });
}

export function invalid(kind: string, name: string, field: string, message: string): ApiError {
  return new ApiError(422, 'Invalid', `${kind} "${name}" is invalid: ${field}: ${message}`, {
    name,
    kind,
    causes: [{ reason: 'FieldValueInvalid', message, field }],
  });
}

export function badRequest(message: string): ApiError {
  return new ApiError(400, 'BadRequest', message);
}

export function forbidden(user: string, what: string): ApiError {
  return new ApiError(403, 'Forbidden', `${what} is forbidden: User "${user}" is not allowed to do this`);
}

export function unauthorized(): ApiError {
  return new ApiError(401, 'Unauthorized', 'Unauthorized');
}

export function unsupportedMediaType(contentType: string): ApiError {
  return new ApiError(
    415,
    'UnsupportedMediaType',
    `the body of the request was in an unknown format: ${contentType}`,
  );
}

export function expired(): ApiError {
  return new ApiError(410, 'Expired', 'The provided continue parameter is too old');
}
