import Basics

/// An error answer of a Swift-shaped store: a status and a page for people, which no program reads (CSSP API, status codes).
package struct CSSPError: Error, Sendable, Equatable {
    package let status: Int
    package let message: String
    package var headers: [Field] = []
    /// The body is the message alone, as middleware answers; otherwise a page.
    var isPlain = false

    init(_ status: Int, _ message: String = "", headers: [Field] = [], isPlain: Bool = false) {
        (self.status, self.headers, self.isPlain) = (status, headers, isPlain)
        self.message = message.isEmpty ? Self.sentence(status) : message
    }

    static let unauthorized = CSSPError(401)
    static let notFound = CSSPError(404)
    static let disconnected = CSSPError(499)
    static func plain(_ status: Int, _ message: String) -> CSSPError { CSSPError(status, message, isPlain: true) }

    init(_ error: StorageError) {
        switch error {
        case .noSuchBucket, .noSuchKey, .noSuchUpload: self = .notFound
        case .bucketExists: self.init(202)
        case .bucketNotEmpty: self.init(409)
        case .conditionFailed, .overtaken: self.init(412)
        case .invalidPart, .partOrder, .partTooSmall: self.init(400)
        case .system, .damaged, .directoryInUse: self.init(500, "\(error)")
        }
    }

    /// Used where the storage is called: its errors become answers.
    static func storing<Result>(_ body: () throws(StorageError) -> Result) throws(CSSPError) -> Result {
        do { return try body() } catch { throw CSSPError(error) }
    }

    var response: ServerResponse {
        let text = isPlain ? message : "<html><h1>\(Self.title(status))</h1><p>\(message)</p></html>"
        let type = isPlain ? "text/plain; charset=utf-8" : "text/html; charset=UTF-8"
        return ServerResponse(
            status: status, headers: headers + [Field("Content-Type", type)], body: .bytes(Array(text.utf8)))
    }

    /// The status line's words.
    static func title(_ status: Int) -> String {
        switch status {
        case 202: "Accepted"
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 406: "Not Acceptable"
        case 409: "Conflict"
        case 411: "Length Required"
        case 412: "Precondition Failed"
        case 413: "Request Entity Too Large"
        case 416: "Requested Range Not Satisfiable"
        case 422: "Unprocessable Entity"
        case 429: "Too Many Requests"
        case 499: "Client Disconnect"
        case 503: "Service Unavailable"
        case 507: "Insufficient Storage"
        default: "Internal Error"
        }
    }

    private static func sentence(_ status: Int) -> String {
        switch status {
        case 202: "The request is accepted for processing."
        case 401: "This server could not verify that you are authorized to access the document you requested."
        case 403: "Access was denied to this resource."
        case 404: "The resource could not be found."
        case 405: "The method is not allowed for this resource."
        case 409: "There was a conflict when trying to complete your request."
        case 411: "Content-Length header required."
        case 412: "A precondition for this request was not met."
        case 413: "The body of your request was too large for this server."
        case 416: "The Range requested is not available."
        case 422: "Unable to process the contained instructions."
        case 499: "The client was disconnected during request."
        case 503: "The server is currently unavailable. Please try again at a later time."
        default: "The server has either erred or is incapable of performing the requested operation."
        }
    }
}
