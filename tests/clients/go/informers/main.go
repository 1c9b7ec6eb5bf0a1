// Informers, a work queue, leader election and dynamic informers of client-go, with connections that are cut, delayed and half closed all the time.
//
//	informers -kubeconfig FILE -seconds N -protocol h2|http/1.1
//
// It puts a proxy of its own between its clients and the server, writes for N seconds, and then compares what every informer has with a list that goes by no proxy.
// It prints one JSON object; exit 1: an informer lacks something, heard of a version that is older than what it had, or the lease had two holders.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
)

const (
	space    = "default"
	names    = 40
	label    = "of=informers"
	resynced = 90 * time.Second
)

var (
	faults sync.Map
	cuts   atomic.Int64
)

func fault(format string, more ...any) { faults.Store(fmt.Sprintf(format, more...), true) }

// --- the proxy ---

// Each connection lives for a while and is then cut, or stands still, or is closed on one side.
func relay(client net.Conn, to string) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	life := time.Duration(200+rand.Intn(3000)) * time.Millisecond
	switch rand.Intn(3) {
	case 0:
		time.AfterFunc(life, func() {
			cuts.Add(1)
			server.(*net.TCPConn).SetLinger(0)
			client.(*net.TCPConn).SetLinger(0)
			server.Close()
			client.Close()
		})
	case 1:
		time.AfterFunc(life, func() { cuts.Add(1); server.(*net.TCPConn).CloseRead(); client.(*net.TCPConn).CloseWrite() })
	case 2:
		time.AfterFunc(life, func() { cuts.Add(1); server.(*net.TCPConn).CloseWrite() })
	}
	slow := rand.Intn(5) == 0
	done := make(chan bool, 2)
	pipe := func(from, into net.Conn) {
		buffer := make([]byte, 4096)
		for {
			count, err := from.Read(buffer)
			if slow {
				time.Sleep(time.Duration(rand.Intn(30)) * time.Millisecond)
			}
			if count > 0 {
				if _, failed := into.Write(buffer[:count]); failed != nil {
					break
				}
			}
			if err != nil {
				if err == io.EOF {
					into.(*net.TCPConn).CloseWrite()
				}
				break
			}
		}
		done <- true
	}
	go pipe(client, server)
	go pipe(server, client)
	<-done
	<-done
}

func proxied(config *rest.Config) *rest.Config {
	at, err := url.Parse(config.Host)
	must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go func() {
		for {
			client, err := listener.Accept()
			must(err)
			go relay(client, at.Host)
		}
	}()
	out := rest.CopyConfig(config)
	out.Host = "https://" + listener.Addr().String()
	out.TLSClientConfig.ServerName = at.Hostname()
	out.Timeout = 0
	return out
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// --- what is watched ---

type seen struct {
	sync.Mutex
	version map[string]uint64
	heard   int
}

func version(object any) (string, uint64) {
	if tomb, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = tomb.Obj
	}
	one := object.(metav1.Object)
	number, err := strconv.ParseUint(one.GetResourceVersion(), 10, 64)
	must(err)
	return one.GetName(), number
}

// Nothing that is told is older than what was told of it before.
func (s *seen) told(who string, object any) {
	s.Lock()
	defer s.Unlock()
	s.heard++
	name, number := version(object)
	if number < s.version[name] {
		fault("%s heard of %s at %d after %d", who, name, number, s.version[name])
	}
	s.version[name] = number
}

func handler(who string, s *seen, queue workqueue.TypedRateLimitingInterface[string]) cache.ResourceEventHandler {
	s.version = map[string]uint64{}
	add := func(object any) {
		name, _ := version(object)
		if queue != nil {
			queue.Add(name)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { s.told(who, object); add(object) },
		UpdateFunc: func(_, object any) { s.told(who, object); add(object) },
		DeleteFunc: func(object any) { s.told(who, object); add(object) },
	}
}

// --- what writes ---

func write(ctx context.Context, client kubernetes.Interface, written *atomic.Int64) {
	for ctx.Err() == nil {
		name := fmt.Sprintf("m%d", rand.Intn(names))
		maps := client.CoreV1().ConfigMaps(space)
		short, stop := context.WithTimeout(ctx, 5*time.Second)
		switch rand.Intn(4) {
		case 0:
			if _, err := maps.Create(short, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": "informers"}}, Data: map[string]string{"n": "0"}}, metav1.CreateOptions{}); err == nil {
				written.Add(1)
			}
		case 1:
			if maps.Delete(short, name, metav1.DeleteOptions{}) == nil {
				written.Add(1)
			}
		default:
			_ = retry.RetryOnConflict(retry.DefaultRetry, func() error {
				one, err := maps.Get(short, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				count, _ := strconv.Atoi(one.Data["n"])
				one.Data = map[string]string{"n": strconv.Itoa(count + 1)}
				_, err = maps.Update(short, one, metav1.UpdateOptions{})
				if err == nil {
					written.Add(1)
				}
				return err
			})
		}
		stop()
	}
}

// Two who want to lead: never both at once.
func elect(ctx context.Context, config *rest.Config, terms *atomic.Int64) {
	var leading atomic.Int64
	for _, who := range []string{"ann", "bob"} {
		client := kubernetes.NewForConfigOrDie(config)
		lock := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Name: "informers", Namespace: space}, Client: client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: who}}
		go wait.UntilWithContext(ctx, func(ctx context.Context) {
			term, end := context.WithTimeout(ctx, time.Duration(1000+rand.Intn(3000))*time.Millisecond)
			defer end()
			leaderelection.RunOrDie(term, leaderelection.LeaderElectionConfig{Lock: lock, LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second, RetryPeriod: 500 * time.Millisecond,
				ReleaseOnCancel: true, Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(mine context.Context) {
						if leading.Add(1) > 1 {
							fault("two lead at once")
						}
						terms.Add(1)
						<-mine.Done()
						leading.Add(-1)
					},
					OnStoppedLeading: func() {}}})
		}, time.Second)
	}
}

func main() {
	file := flag.String("kubeconfig", "", "")
	length := flag.Int("seconds", 20, "")
	protocol := flag.String("protocol", "h2", "")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *file)
	must(err)
	config.QPS, config.Burst = 200, 200
	direct := kubernetes.NewForConfigOrDie(config)
	through := proxied(config)
	through.TLSClientConfig.NextProtos = []string{*protocol}
	far := kubernetes.NewForConfigOrDie(through)

	ctx, stop := context.WithCancel(context.Background())
	selected := func(o *metav1.ListOptions) { o.LabelSelector = label }
	factory := informers.NewSharedInformerFactoryWithOptions(far, 7*time.Second, informers.WithNamespace(space), informers.WithTweakListOptions(selected))
	maps := factory.Core().V1().ConfigMaps()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	var typed, loose seen
	_, err = maps.Informer().AddEventHandler(handler("typed", &typed, queue))
	must(err)
	kind := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	others := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamic.NewForConfigOrDie(through), 0, space, selected)
	_, err = others.ForResource(kind).Informer().AddEventHandler(handler("dynamic", &loose, nil))
	must(err)

	// A controller: what it did last is what was there last.
	var shadow sync.Map
	for range 2 {
		go func() {
			for {
				name, ended := queue.Get()
				if ended {
					return
				}
				if one, err := maps.Lister().ConfigMaps(space).Get(name); err == nil {
					shadow.Store(name, one.Data["n"])
				} else {
					shadow.Delete(name)
				}
				queue.Forget(name)
				queue.Done(name)
			}
		}()
	}
	factory.Start(ctx.Done())
	others.Start(ctx.Done())
	var written, terms atomic.Int64
	busy, rest := context.WithTimeout(ctx, time.Duration(*length)*time.Second)
	for range 3 {
		go write(busy, far, &written)
	}
	go write(busy, direct, &written)
	elect(busy, through, &terms)
	<-busy.Done()
	rest()

	// In the end all of them have what is there.
	same := func() string {
		list, err := direct.CoreV1().ConfigMaps(space).List(ctx, metav1.ListOptions{LabelSelector: label})
		if err != nil {
			return err.Error()
		}
		known, err := maps.Lister().ConfigMaps(space).List(labels.Everything())
		must(err)
		loosely := others.ForResource(kind).Informer().GetStore().List()
		if len(known) != len(list.Items) || len(loosely) != len(list.Items) {
			return fmt.Sprintf("%d are there, %d and %d are known", len(list.Items), len(known), len(loosely))
		}
		shadows := 0
		shadow.Range(func(_, _ any) bool { shadows++; return true })
		if shadows != len(list.Items) {
			return fmt.Sprintf("%d are there, the queue's worker knows %d", len(list.Items), shadows)
		}
		for _, one := range list.Items {
			mine, err := maps.Lister().ConfigMaps(space).Get(one.Name)
			if err != nil || mine.ResourceVersion != one.ResourceVersion {
				return one.Name + " is known otherwise"
			}
			if did, _ := shadow.Load(one.Name); did != one.Data["n"] {
				return one.Name + " was worked on otherwise"
			}
			other, there, _ := others.ForResource(kind).Informer().GetStore().GetByKey(space + "/" + one.Name)
			if !there || other.(*unstructured.Unstructured).GetResourceVersion() != one.ResourceVersion {
				return one.Name + " is known otherwise by the dynamic informer"
			}
		}
		return ""
	}
	why := "never compared"
	for end := time.Now().Add(resynced); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if why = same(); why == "" {
			break
		}
	}
	if why != "" {
		fault("in the end: %s", why)
	}
	stop()
	all := []string{}
	faults.Range(func(what, _ any) bool { all = append(all, what.(string)); return true })
	_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"faults": all, "written": written.Load(), "heard": typed.heard, "dynamic": loose.heard, "cuts": cuts.Load(), "terms": terms.Load()})
	if len(all) > 0 {
		os.Exit(1)
	}
}
