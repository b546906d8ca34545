import Basics
import HTTP
import ObjectStorage
import Providers
import Testing

extension Promise {
    static let access: [Promise] = [
        Promise("Access is granted to who may have it and refused with the reason") { bucket in
            try await bucket.store.checkAccess()
            guard let server = bucket.fixture.server else { return }
            let missing = try server.store(bucket: "no-such-bucket")
            #expect(await failure { try await missing.checkAccess() } == .noSuchBucket)
            let stranger = try server.store(secret: "wrong")
            #expect(await failure { try await stranger.checkAccess() } == .credentialsRejected)
        },
        Promise("A presigned URL serves the object without credentials") { bucket in
            let name = "object + %"
            guard bucket.capabilities.presign else {
                let refused = await failure { try bucket.store.presign(bucket.key("object"), lifetime: .seconds(60)) }
                #expect(refused == .notSupported)
                return
            }
            try await bucket.put(.init(name), [1, 2, 3])
            let url = try bucket.store.presign(bucket.key(.init(name)), lifetime: .seconds(60))
            guard let server = bucket.fixture.server else { return }
            // The host may be one of the bucket's own; the server listens at the address all the same.
            let parts = url.split(separator: "/", maxSplits: 2).map(String.init)
            try #require(parts.count == 3 && parts[1].hasSuffix(":\(server.port)"))
            let fetch = { (target: String) in
                let headers = HTTPHeaders([("Host", parts[1])])
                return try await server.engine.execute(
                    HTTPRequest(.get, server.origin, target: target, headers: headers))
            }
            let answer = try await fetch("/" + parts[2])
            #expect(answer.status == 200)
            #expect(answer.body == [1, 2, 3])
            let changed = try await fetch("/" + parts[2].replacing("object", with: "obiect"))
            #expect([401, 403].contains(changed.status))
        },
    ]
}
