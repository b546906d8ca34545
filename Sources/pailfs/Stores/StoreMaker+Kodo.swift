import ObjectStorage
import Providers
import Settings

extension StoreMaker {
    /// Qiniu Kodo, which returns a bucket's region on request and serves objects from a domain.
    func kodo() throws(ObjectStoreError) -> Provider {
        let sources = try request.kodoCredentials()
        let credentials = credentials()
        var client = KodoClient.Settings()
        client.endpoint = endpoint(sources.endpoint)
        client.region = settings.region
        client.domain = settings.downloadDomain
        (client.isSecure, client.signsTime) = (sources.isSecure, sources.signsTime)
        client.headers = settings.headers.map { ($0.name, $0.value) }
        let open: AccountStore.Opener = { [self, client] (entry) throws(ObjectStoreError) in
            var bucket = KodoStore.Settings(bucket: entry.name)
            bucket.client = client
            bucket.storageClass = NewObjectClass(settings.storageClass, from: settings.smallestOfClass)
            bucket.uploadPolicy = settings.uploadPolicy
            bucket.verifiesChecksums = settings.checksums == .verify
            return try KodoStore(bucket, credentials: credentials, engine: engine, time: time)
        }
        // A domain belongs to one bucket.
        let directory =
            request.bucket == nil && client.domain != nil
            ? nil : try KodoBuckets(client, credentials: credentials, engine: engine, time: time)
        return Provider(capabilities: KodoStore.limits, directory: directory, open: open)
    }
}
