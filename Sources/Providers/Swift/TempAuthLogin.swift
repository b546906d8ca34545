package import Basics
package import HTTP
package import ObjectStorage

/// The login of auth version 1, for TempAuth and Ceph's gateway (Swift documentation, TempAuth).
package struct TempAuthLogin: Sendable {
    /// `https://host/auth/v1.0`
    package var url: String
    /// `account:user`
    package var user: String
    package var key: Secret
    /// The account's address, where it is not the one that the login returns.
    package var storageURL: String?

    package init(url: String, user: String, key: Secret, storageURL: String? = nil) {
        (self.url, self.user, self.key, self.storageURL) = (url, user, key, storageURL)
    }

    package func token(_ engine: HTTPEngine, _ time: any TimeSource) async throws(ObjectStoreError) -> SwiftToken {
        let headers = HTTPHeaders([("X-Auth-User", user), ("X-Auth-Key", key.revealed)])
        let began = time.now()
        return try token(await LoginRequest.send(.get, url, headers: headers, body: nil, engine), began: began)
    }

    /// The token in the answer to a login that began at `began`.
    func token(_ response: HTTPResponse, began: Timestamp) throws(ObjectStoreError) -> SwiftToken {
        guard let storage = response.headers["X-Storage-Url"],
            let token = response.headers["X-Auth-Token"] ?? response.headers["X-Storage-Token"]
        else { throw LoginRequest.malformed(response, url, "neither X-Storage-Url nor X-Auth-Token") }
        let life = response.headers["X-Auth-Token-Expires"].flatMap { Int64($0) }
        return SwiftToken(
            storageURL: storageURL ?? storage, token: Secret(token), expires: life.map { began + .seconds(max(0, $0)) })
    }
}

/// A request to a login service.
enum LoginRequest {
    static func send(
        _ method: HTTPMethod, _ url: String, headers: HTTPHeaders, body: [UInt8]?, _ engine: HTTPEngine
    ) async throws(ObjectStoreError) -> HTTPResponse {
        guard let address = StorageAddress(url) else {
            throw ObjectStoreError(
                .invalidRequest, .checkAccess, code: "InvalidAuthURL",
                message: "the authentication URL \(url) cannot be used; write http://host[:port]/path or https://")
        }
        let target = address.basePath.isEmpty ? "/" : address.basePath
        let request = HTTPRequest(method, address.origin, target: target, headers: headers)
        let response: HTTPResponse
        do { response = try await engine.execute(request, body: body.map { MemorySource($0) }) } catch {
            throw SwiftErrors.error(error, .checkAccess, nil)
        }
        guard !response.isSuccess else { return response }
        var error = SwiftErrors.error(response, .checkAccess, nil, isConditional: false)
        error.message = "the login at \(address.origin)\(target) failed: \(error.message)"
        // A 404 of the login service does not mean a missing bucket.
        if error.kind == .noSuchBucket { error.kind = .invalidRequest }
        throw error
    }

    static func malformed(_ response: HTTPResponse, _ url: String, _ lacking: String) -> ObjectStoreError {
        ObjectStoreError(
            .malformedAnswer, .checkAccess, status: response.status, code: "Login",
            message: "the login at \(url) answered with \(lacking)",
            requestID: SwiftErrors.requestID(response.headers))
    }
}
