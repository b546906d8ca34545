import Basics
import FoundationEssentials
import HTTP
import ObjectStorage

/// Callbacks of uploads (OSS API, "Callback"): after a PUT and the completion of an upload in parts, OSS sends a request to an
/// application's server and returns what that answers; where it gets no answer, status 203 and an error document. The object is
/// stored then, too.
extension FamilyStore {
    private struct Document: Encodable {
        let callbackUrl: String
        let callbackHost: String?
        let callbackBody: String
        let callbackBodyType: String
    }

    /// The markers of directories are no files.
    func callback(of key: ObjectKey) -> UploadPolicy.Callback? {
        key.bytes.hasSuffix("/") ? nil : settings.callback
    }

    func addCallback(_ call: Call, to headers: inout HTTPHeaders) throws(ObjectStoreError) {
        guard let callback = call.key.flatMap(callback) else { return }
        let document = Document(
            callbackUrl: callback.url, callbackHost: callback.host, callbackBody: callback.body,
            callbackBodyType: callback.type)
        headers[profile.header("callback")] = try encoded(document, call)
        if !callback.variables.isEmpty {
            headers[profile.header("callback-var")] = try encoded(callback.variables, call)
        }
    }

    private func encoded(_ value: some Encodable, _ call: Call) throws(ObjectStoreError) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        do { return Base64.encode(Array(try encoder.encode(value))) } catch {
            throw invalid(call, "the callback cannot be written as JSON: \(error)")
        }
    }

    /// Whether the error of a successful answer is that of the callback.
    func isOfCallback(_ response: HTTPResponse, _ document: FamilyErrors.Document) -> Bool {
        settings.callback != nil && response.status == 203 && document.code == "CallbackFailed"
    }

    /// How the callback of an upload ended; nil for an upload without one.
    private func result(_ call: Call, _ response: HTTPResponse) -> CallbackResult? {
        guard call.key.flatMap(callback) != nil else { return nil }
        guard let document = errors.document(response), isOfCallback(response, document) else {
            return CallbackResult(isFailure: false, String(decoding: response.body, as: UTF8.self))
        }
        let id = errors.requestID(response).map { " (request \($0))" } ?? ""
        return CallbackResult(isFailure: true, "\(document.code): \(document.message)\(id)")
    }

    /// The answer to an upload, which `parse` reads where it names the version.
    func calledBack(
        _ call: Call, _ response: HTTPResponse, size: Int64, crc64: UInt64? = nil,
        _ parse: () async throws(ObjectStoreError) -> PutAnswer
    ) async throws(ObjectStoreError) -> PutAnswer {
        guard let result = result(call, response), let key = call.key else { return try await parse() }
        var answer: PutAnswer
        if response.headers["ETag"] != nil {
            answer = try await parse()
        } else {
            // A second upload would send a second request to the application's server: a HEAD shows the version.
            let info = try await head(key, condition: nil)
            guard info.version.size == size, crc64 == nil || info.crc64 == nil || info.crc64 == crc64 else {
                throw untoldVersion(key, "the answer does not name the version that was stored", response)
            }
            answer = PutAnswer(info.version)
        }
        answer.callback = result
        return answer
    }
}
