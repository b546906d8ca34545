import Basics
import FoundationEssentials

/// Callbacks of uploads (OSS API, "Callback"). No address is called: every callback fails, unless a fault has it answered.
extension OSSDialect {
    private struct Callback: Decodable {
        let callbackUrl: String
        let callbackHost: String?
        let callbackBody: String
        let callbackBodyType: String?
    }

    /// Whether the request has a callback; refuses one that OSS cannot read, before anything is stored.
    static func hasCallback(_ request: ServerRequest) throws(OSSError) -> Bool {
        guard let text = request.header("x-oss-callback") else { return false }
        guard let callback = decoded(Callback.self, text), !callback.callbackUrl.isEmpty else {
            throw OSSError(
                400, "InvalidArgument", "The callback configuration is not json format.", ec: "0007-00000003",
                elements: [Field("ArgumentName", "callback")])
        }
        let types = ["application/x-www-form-urlencoded", "application/json"]
        guard !callback.callbackBody.isEmpty, types.contains(callback.callbackBodyType ?? types[0]) else {
            throw OSSError(
                400, "InvalidArgument", "The callbackBody or callbackBodyType is invalid.", ec: "0007-00000012",
                elements: [Field("ArgumentName", "callback")])
        }
        if let text = request.header("x-oss-callback-var") {
            guard let variables = decoded([String: String].self, text),
                variables.keys.allSatisfy({ $0.hasPrefix("x:") && $0.lowercased() == $0 })
            else {
                throw OSSError(
                    400, "InvalidArgument", "The callback-var is not a json of names that begin with x:.",
                    ec: "0007-00000015", elements: [Field("ArgumentName", "callback-var")])
            }
        }
        return true
    }

    private static func decoded<Value: Decodable>(_ type: Value.Type, _ text: String) -> Value? {
        Base64.decode(text).flatMap { try? JSONDecoder().decode(type, from: Data($0)) }
    }

    /// The answer to an upload that is stored: `response`, or what the application's server answers.
    static func calledBack(_ hasCallback: Bool, _ response: ServerResponse) throws(OSSError) -> ServerResponse {
        guard hasCallback else { return response }
        let headers = response.headers.filter { $0.name.lowercased() != "content-type" }
        guard Departures.current.answersCallbacks else {
            throw OSSError(
                203, "CallbackFailed", "Error status : 502. pailstore calls no address.", ec: "0007-00000203",
                headers: headers)
        }
        return ServerResponse(
            status: 200, headers: headers + [Field("Content-Type", "application/json")],
            body: .bytes(Array("{\"Status\":\"OK\"}".utf8)))
    }
}
