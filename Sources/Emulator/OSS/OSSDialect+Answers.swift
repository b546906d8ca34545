import Basics

/// Answers.
extension OSSDialect {
    func commonHeaders(_ request: ServerRequest) -> [Field] {
        [
            Field("x-oss-request-id", String(request.id.prefix(24))), Field("Date", options.time.now().httpDate),
            Field("Server", "AliyunOSS"),
        ]
    }

    /// An XML answer; without a namespace, for the SDKs look for plain names.
    func xml(_ root: String, _ children: (inout XMLWriter) -> Void) -> ServerResponse {
        var writer = XMLWriter()
        writer.element(root, children)
        return ServerResponse(
            status: 200, headers: [Field("Content-Type", "application/xml")], body: .bytes(writer.bytes))
    }

    /// An error, as a document or, for HEAD, as the base64 of one in a header.
    func document(of error: OSSError, _ request: ServerRequest, _ target: RequestTarget) -> ServerResponse {
        var response = ServerResponse(status: error.status, headers: commonHeaders(request) + error.headers)
        guard error.status != 304 else { return response }
        var writer = XMLWriter()
        writer.element("Error") { writer in
            writer.element("Code", error.code)
            writer.element("Message", error.message)
            writer.element("RequestId", String(request.id.prefix(24)))
            writer.element("HostId", request.header("host") ?? "")
            let names = Set(error.elements.map(\.name))
            if !target.bucket.isEmpty, !names.contains("Bucket") { writer.element("BucketName", target.bucket) }
            if !target.key.isEmpty { writer.element("Key", target.key) }
            for element in error.elements { writer.element(element.name, element.value) }
        }
        if request.method == "HEAD" {
            response.headers.append(Field("x-oss-err", Base64.encode(writer.bytes)))
        } else {
            response.headers.append(Field("Content-Type", "application/xml"))
            response.body = .bytes(writer.bytes)
        }
        return response
    }

    func failure(status: Int, retryAfter: Int?, _ request: ServerRequest, _ route: RequestRoute) -> ServerResponse {
        let (code, message) =
            switch status {
            case 200, 500: ("InternalError", "Please contact the server administrator, oss@service.aliyun.com.")
            case 503: ("ServiceUnavailable", "Please reduce your request rate.")
            case 429: ("TotalQpsLimitExceeded", "Please reduce your request rate.")
            case 403: ("AccessDenied", OSSError.accessDenied.message)
            case 404: ("NoSuchKey", OSSError(.noSuchKey).message)
            case 405: ("MethodNotAllowed", "The specified method is not allowed against this resource.")
            case 409: ("FileAlreadyExists", OSSError(.conditionFailed).message)
            case 412: ("PreconditionFailed", OSSError.preconditionFailed.message)
            case 501: ("NotImplemented", OSSError.notImplemented.message)
            default:
                status < 500 ? ("BadRequest", "The request is invalid.") : ("InternalError", "Please try again.")
            }
        let headers = retryAfter.map { [Field("Retry-After", String($0))] } ?? []
        return document(
            of: OSSError(status, code, message, headers: headers), request,
            RequestTarget(oss: request, domains: options.domains))
    }

    func expired(_ request: ServerRequest, _ route: RequestRoute) -> ServerResponse {
        document(
            of: OSSError(403, "SecurityTokenExpired", "The security token you provided has expired."), request,
            RequestTarget(oss: request, domains: options.domains))
    }
}
